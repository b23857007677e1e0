# tries: command services of the host by their sockets
# expect: exit 0
import socket

from probe import finish, must_fail

for path in (
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/systemd/private",
    "/run/systemd/notify",
    "/run/systemd/journal/dev-log",
    "/run/dbus/system_bus_socket",
    "/run/nscd/socket",
    "/dev/log",
):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        outside = socket.socket(socket.AF_UNIX, kind)
        must_fail(path, lambda: outside.connect(path))
finish()
