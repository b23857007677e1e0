# tries: look up names, with a secret in the name
# expect: exit 0
import socket

from probe import finish, must_fail

for name in ("secret.example.com", "example.com", "host.docker.internal"):
    must_fail(name, lambda: socket.getaddrinfo(name, 80))
finish()
