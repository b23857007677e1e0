# tries: fill the disk through /out, in files small enough to pass one by one
# flags: --total-size 16
# expect: limit totalSize
from probe import fact

block = b"x" * (1 << 20)
for number in range(256):
    with open(f"{fact('out', '/out')}/filler-{number}", "wb") as file:
        file.write(block)
print("wrote 256 MiB")
