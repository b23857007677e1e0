# tries: use up memory with empty files in /tmp
# flags: --memory 64 --inodes 500
# expect: limit inodes or limit memory or exit 0
from probe import contained, escaped, finish

made = 0
try:
    for made in range(200000):
        open(f"/tmp/inode-{made}", "wb").close()
    escaped(f"{made} files in /tmp")
except OSError as error:
    contained(f"{made} files in /tmp: {error}")
finish()
