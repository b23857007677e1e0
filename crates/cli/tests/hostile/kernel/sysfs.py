# tries: look at the hardware and change it through /sys
# expect: exit 0
# bare: escapes
import os

from probe import contained, escaped, finish

try:
    entries = os.listdir("/sys")
    if entries:
        escaped(f"/sys has {entries}")
except OSError as error:
    contained(f"/sys: {error}")
for path in ("/sys/kernel/debug", "/sys/fs/cgroup", "/sys/firmware", "/sys/class/net"):
    if os.path.exists(path):
        escaped(f"{path} is there")
finish()
