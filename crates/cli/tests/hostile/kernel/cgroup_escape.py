# tries: leave its control group, or make it run a program of the host
# expect: exit 0
# bare: escapes as root
import os

from probe import contained, escaped, finish

below = "/sys/fs/cgroup"
for directory, _, names in os.walk(below):
    for name in ("cgroup.procs", "tasks", "release_agent", "cgroup.subtree_control"):
        path = os.path.join(directory, name)
        if name in names and os.access(path, os.W_OK):
            escaped(f"{path} can be written")
    break
for directory in os.listdir(below) if os.path.isdir(below) else []:
    if os.access(os.path.join(below, directory, "cgroup.procs"), os.W_OK):
        escaped(f"{below}/{directory}/cgroup.procs can be written")
# The place of this process must not say where it is on the host.
with open("/proc/self/cgroup") as groups:
    for line in groups:
        path = line.rstrip("\n").split(":", 2)[2]
        if path.startswith("/.."):
            escaped(f"the group {path} is outside of the root")
        else:
            contained(f"group {path}")
finish()
