# tries: find the caller's secrets in environments, its own and those of every process it sees
# expect: exit 0
# bare: escapes
import glob
import os

from probe import contained, escaped, finish

if "SECRET_TOKEN" in os.environ:
    escaped("the secret is in the environment")
for name in ("COUNTERSIGN_HOME", "OPERATOR_MARK"):
    if name in os.environ:
        escaped(f"{name} is in the environment")
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        contained(f"{path}: {error}")
        continue
    if b"SECRET_TOKEN" in content:
        escaped(f"the secret is in {path}")
finish()
