# tries: reach a service on the loopback address of the host
# expect: exit 0
# bare: escapes
import socket

from probe import fact, finish, must_fail

port = int(fact("port"))
for host in ("127.0.0.1", "127.1.2.3", "0.0.0.0", "localhost"):
    must_fail(f"{host}:{port}", lambda: socket.create_connection((host, port), timeout=3))
finish()
