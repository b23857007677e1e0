# tries: fill /dev/shm
# flags: --memory 64 --total-size 64
# expect: limit memory or limit totalSize or exit 0
from probe import contained, escaped, finish

written = 0
block = b"x" * (1 << 20)
try:
    for number in range(256):
        with open(f"/dev/shm/filler-{number}", "wb") as file:
            file.write(block)
        written += 1
    escaped(f"/dev/shm took {written} MiB")
except OSError as error:
    contained(f"/dev/shm took {written} MiB: {error}")
    if written > 64:
        escaped("more than the limit")
finish()
