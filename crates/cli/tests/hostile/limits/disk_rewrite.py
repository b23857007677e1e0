# tries: fill the disk by changing and deleting, with deleted files kept open
# flags: --total-size 16
# expect: limit totalSize or exit 0
# diff: workspace ?gone
import os

from probe import contained, escaped, fact, finish

held = []
block = b"x" * (1 << 20)
try:
    for number in range(256):
        name = f"{fact('ws', '/workspace')}/gone"
        held.append(open(name, "wb", buffering=0))
        if held[-1].write(block) < len(block):
            raise OSError("a short write")
        os.unlink(name)
    escaped(f"{len(held)} MiB in deleted files")
except OSError as error:
    contained(f"after {len(held)} MiB: {error}")
    if len(held) > 17:
        escaped("more than the limit")
finish()
