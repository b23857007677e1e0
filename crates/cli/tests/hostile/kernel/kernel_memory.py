# tries: read the kernel's memory, addresses and tables
# expect: exit 0
# bare: escapes as root
import os

from probe import contained, escaped, finish, may_not_open

for path in (
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/kpageflags",
    "/proc/kpagecount",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
    "/proc/iomem",
    "/dev/mem",
    "/dev/kmem",
):
    may_not_open(path, os.O_RDONLY)
try:
    with open("/proc/kallsyms") as symbols:
        address = symbols.readline().split()[0]
    if int(address, 16):
        escaped(f"kallsyms: {address}")
    else:
        contained("kallsyms tells no addresses")
except (OSError, IndexError) as error:
    contained(f"kallsyms: {error}")
finish()
