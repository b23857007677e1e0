# tries: be somebody special from the start
# expect: exit 0
# bare: escapes
import os

from probe import contained, escaped, finish

with open("/proc/self/status") as file:
    status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
expected = {"NoNewPrivs": "1", "Seccomp": "2"}
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    expected[name] = "0" * 16
for name, value in expected.items():
    if status.get(name) == value:
        contained(f"{name} {value}")
    else:
        escaped(f"{name} is {status.get(name)}, not {value}")
if os.getresuid() != (1000, 1000, 1000) or 0 in os.getresgid():
    escaped(f"users {os.getresuid()}, groups {os.getresgid()}")
if 0 in os.getgroups():
    escaped(f"supplementary groups {os.getgroups()}")
finish()
