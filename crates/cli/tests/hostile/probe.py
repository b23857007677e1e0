"""What the hostile programs share: they say what happened, and end with 42 when they got out."""
import os
import sys

_escapes = []


def fact(name, otherwise=None):
    """What the harness said about the host, given as `name=value`."""
    for argument in sys.argv[1:]:
        if argument.startswith(name + "="):
            return argument[len(name) + 1:]
    return otherwise


def escaped(what):
    print("ESCAPED:", what, flush=True)
    _escapes.append(what)


def contained(what):
    print("contained:", what, flush=True)


def must_fail(what, action):
    """The action may not succeed; why it failed does not matter."""
    try:
        result = action()
    except (OSError, ValueError, OverflowError) as error:
        contained(f"{what}: {error}")
        return None
    escaped(f"{what} succeeded")
    return result


def may_not_open(path, flags):
    """Opens without writing, so that the attempt does no harm where it succeeds."""
    name = {os.O_RDONLY: "reading", os.O_WRONLY: "writing", os.O_RDWR: "changing"}[flags]
    descriptor = must_fail(f"{name} {path}", lambda: os.open(path, flags | os.O_NONBLOCK))
    if descriptor is not None:
        os.close(descriptor)


def finish():
    print("ESCAPED" if _escapes else "CONTAINED", flush=True)
    sys.exit(42 if _escapes else 0)
