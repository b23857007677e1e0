# tries: ask the cloud for credentials
# expect: exit 0
import socket

from probe import finish, must_fail

for address in (("169.254.169.254", 80), ("169.254.170.2", 80), ("100.100.100.200", 80)):
    must_fail(str(address), lambda: socket.create_connection(address, timeout=3))
must_fail("fd00:ec2::254", lambda: socket.create_connection(("fd00:ec2::254", 80), timeout=3))
must_fail("the name", lambda: socket.getaddrinfo("metadata.google.internal", 80))
finish()
