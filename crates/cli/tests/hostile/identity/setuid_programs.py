# tries: gain the owner's rights by running setuid programs
# expect: exit 0
# bare: escapes as user
import os
import subprocess

from probe import contained, escaped, finish


def effective(status):
    for line in status.splitlines():
        if line.startswith("Uid:"):
            real, now = line.split()[1:3]
            return real, now
    return None


for program in ("su", "passwd", "mount", "umount", "chsh", "newgrp", "sudo", "pkexec"):
    path = next((p for p in (f"/usr/bin/{program}", f"/bin/{program}") if os.path.exists(p)), None)
    if path is None:
        contained(f"{program} is not there")
        continue
    # It asks for a password and waits for it, or gives up; either way it has said something by then.
    child = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
    said = os.read(child.stdout.fileno(), 64)
    try:
        with open(f"/proc/{child.pid}/status") as status:
            ids = effective(status.read())
    except OSError:
        ids = None
    child.stdin.close()
    child.kill()
    child.wait()
    if ids and ids[0] != ids[1]:
        escaped(f"{program} ran as {ids[1]} instead of {ids[0]}")
    else:
        contained(f"{program}: {said!r} as {ids}")
finish()
