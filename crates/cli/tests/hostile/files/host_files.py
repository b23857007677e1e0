# tries: read secrets of the host and of the operator
# expect: exit 0
# bare: escapes
import os

from probe import contained, escaped, fact, finish

places = ["/etc/shadow", "/etc/sudoers", "/etc/ssh", "/root", "/boot", "/srv", "/mnt", "/media"]
places += ["/var/lib", "/var/log", "/var/spool", "/lost+found", "/etc/hostname", "/etc/machine-id"]
places += [fact(name) for name in ("canary", "operator", "home", "cwd") if fact(name)]
for place in places:
    try:
        if os.path.isdir(place):
            found = os.listdir(place)
        else:
            with open(place, "rb") as file:
                found = file.read(64)
    except OSError as error:
        contained(f"{place}: {error}")
        continue
    # An empty directory gives nothing away.
    if found:
        escaped(f"{place} has {found}")
finish()
