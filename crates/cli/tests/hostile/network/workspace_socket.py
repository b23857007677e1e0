# tries: reach a unix socket of the host that lies in the workspace
# expect: exit 0 or refused STAGING_REFUSED
# bare: escapes
# wants: socket
import os
import socket

from probe import fact, finish, must_fail

outside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
os.chdir(fact("ws", "/workspace"))
must_fail("host.sock", lambda: outside.connect("host.sock"))
finish()
