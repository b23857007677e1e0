# tries: reach an abstract unix socket of the host, which is in no directory
# expect: exit 0
# bare: escapes
import socket

from probe import fact, finish, must_fail

names = [fact("abstract"), "/tmp/.X11-unix/X0", "/tmp/dbus-session"]
for name in names:
    outside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    must_fail(f"@{name}", lambda: outside.connect(b"\0" + name.encode()))
finish()
