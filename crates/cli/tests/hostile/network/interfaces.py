# tries: find an interface that leads out, and set one up
# expect: exit 0
import fcntl
import socket
import struct

from probe import contained, escaped, finish, must_fail

try:
    with open("/proc/net/dev") as devices:
        names = [line.split(":")[0].strip() for line in devices if ":" in line]
    if [name for name in names if name != "lo"]:
        escaped(f"interfaces {names}")
    else:
        contained(f"interfaces {names}")
except OSError as error:
    contained(f"/proc/net/dev: {error}")
try:
    control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
except OSError as error:
    contained(f"a socket: {error}")
    finish()
# An address for lo, a route, a bridge.
request = struct.pack("16sH2s4s8s", b"lo", socket.AF_INET, b"", socket.inet_aton("10.0.0.1"), b"")
must_fail("SIOCSIFADDR", lambda: fcntl.ioctl(control, 0x8916, request))
must_fail("SIOCSIFFLAGS", lambda: fcntl.ioctl(control, 0x8914, struct.pack("16sH22s", b"lo", 0, b"")))
must_fail("SIOCBRADDBR", lambda: fcntl.ioctl(control, 0x89A0, b"br0\0"))
finish()
