# tries: see the processes of the host
# expect: exit 0
# bare: escapes
import os

from probe import contained, escaped, fact, finish

seen = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
if os.path.exists(f"/proc/{fact('hostpid')}"):
    escaped(f"process {fact('hostpid')} of the host")
names = []
for process in seen:
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            names.append((process, file.read()[:80]))
    except OSError as error:
        contained(f"{process}: {error}")
print(names)
# This program, its keepers and nobody else.
if len(seen) > 4:
    escaped(f"{len(seen)} processes")
finish()
