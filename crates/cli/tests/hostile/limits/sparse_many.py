# tries: leave sparse files that together are far larger than allowed when copied
# flags: --file-size 8 --total-size 16
# expect: limit totalSize or refused STAGING_REFUSED
from probe import fact

for number in range(64):
    with open(f"{fact('out', '/out')}/sparse-{number}", "wb") as file:
        file.truncate(8 << 20)
print("512 MiB of nothing")
