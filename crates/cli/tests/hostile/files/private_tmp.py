# tries: find files of the host in /tmp and open it to everybody
# expect: exit 0
# bare: escapes
import os

from probe import contained, escaped, fact, finish

found = []
for place in ("/tmp", "/var/tmp", "/run", "/dev/shm"):
    try:
        found += [f"{place}/{name}" for name in os.listdir(place)]
    except OSError as error:
        contained(f"{place}: {error}")
if os.path.exists(fact("canary", "/nowhere")):
    escaped(f"{fact('canary')} is there")
# Bare this is the host's own directory, so its mode is not touched there.
if not found and fact("ws") == "/workspace":
    try:
        os.chmod("/tmp", 0o777)
        contained("/tmp is its own")
    except OSError as error:
        contained(f"/tmp: {error}")
elif found:
    escaped(f"not empty: {found}")
finish()
