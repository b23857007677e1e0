# tries: give a file powers: capabilities, an immutable flag, an owner, attributes of security
# expect: exit 0
# bare: escapes as root
import fcntl
import os
import struct

from probe import fact, finish, must_fail

path = os.path.join(fact("ws", "/workspace"), "powerful")
with open(path, "wb") as file:
    file.write(b"x")
# Version 2 with CAP_SETUID effective.
powers = struct.pack("<5I", 0x02000001, 1 << 7, 0, 0, 0)
must_fail("security.capability", lambda: os.setxattr(path, "security.capability", powers))
must_fail("trusted.x", lambda: os.setxattr(path, "trusted.x", b"1"))
must_fail("an owner", lambda: os.chown(path, 1, 1))
with open(path, "rb") as file:
    # FS_IOC_SETFLAGS with the flag for immutable.
    frozen = must_fail("immutable", lambda: fcntl.ioctl(file, 0x40086602, struct.pack("l", 0x10)))
    if frozen is not None:
        fcntl.ioctl(file, 0x40086602, struct.pack("l", 0))
os.unlink(path)
finish()
