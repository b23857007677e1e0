# tries: to reach anybody at all
# run: 0
# exit_code: 0
# notes: None observed
# shows: quokka contained
import socket

port = int(open("/in/host.txt").read().split("\n")[1])
family = [(socket.AF_INET, "127.0.0.1", port), (socket.AF_INET, "192.0.2.1", 80), (socket.AF_INET6, "::1", port)]
for kind, address, number in family:
    try:
        s = socket.socket(kind, socket.SOCK_STREAM)
        s.settimeout(3)
        s.connect((address, number))
        print("escaped: quokka", address)
        raise SystemExit(42)
    except OSError:
        pass
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b"quokka", ("192.0.2.1", 53))
    raise SystemExit(42)
except OSError:
    pass
try:
    socket.getaddrinfo("example.org", 80)
    raise SystemExit(42)
except OSError:
    pass
print("quokka contained")
