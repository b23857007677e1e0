# tries: read memory that processes of the host share
# expect: exit 0
# bare: escapes
import os

from probe import contained, escaped, fact, finish, may_not_open

may_not_open(f"/dev/shm/{fact('shm')}", os.O_RDONLY)
for kind in ("shm", "sem", "msg"):
    try:
        with open(f"/proc/sysvipc/{kind}") as table:
            rows = table.read().splitlines()[1:]
        (escaped if rows else contained)(f"{kind}: {len(rows)} of the host")
    except OSError as error:
        contained(f"{kind}: {error}")
if os.path.isdir("/dev/mqueue") and os.listdir("/dev/mqueue"):
    escaped(f"message queues {os.listdir('/dev/mqueue')}")
finish()
