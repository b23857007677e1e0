# tries: reach the host through /proc: memory, root, environment, descriptors and programs of others
# expect: exit 0
# bare: escapes as root
import os

from probe import contained, escaped, fact, finish, may_not_open, must_fail


def same(one, other):
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


known = [os.stat(place) for place in ("/", fact("ws", "/workspace"), "/tmp")]
ours = {f"{name}={value}".encode() for name, value in os.environ.items()}
for process in {1, os.getppid(), int(fact("hostpid", "1"))} - {0, os.getpid()}:
    place = f"/proc/{process}"
    may_not_open(f"{place}/mem", os.O_RDONLY)
    may_not_open(f"{place}/exe", os.O_WRONLY)
    must_fail(f"a descriptor of {process}", lambda: os.open(f"{place}/fd/3", os.O_RDONLY))
    for link in ("root", "cwd"):
        try:
            there = os.stat(f"{place}/{link}/.")
            if any(same(there, own) for own in known):
                contained(f"{place}/{link} is a place of ours")
            else:
                escaped(f"{place}/{link} has {os.listdir(f'{place}/{link}')}")
        except OSError as error:
            contained(f"{place}/{link}: {error}")
    try:
        with open(f"{place}/environ", "rb") as file:
            theirs = {entry for entry in file.read().split(b"\0") if entry}
        # An environment that can be read may only say what ours says.
        (escaped if theirs - ours else contained)(f"{place}/environ has {theirs - ours}")
    except OSError as error:
        contained(f"{place}/environ: {error}")
finish()
