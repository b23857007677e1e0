# tries: use the proxy for one granted host to reach the host itself and private networks
# flags: --allow-host example.com
# expect: exit 0
from probe import contained, escaped, fact, finish
from proxy_client import connect, fetch, proxies, socks

port = int(fact("port"))
if not list(proxies()):
    contained("there is no proxy")
hosts = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0177.0.0.1"]
hosts += ["0.0.0.0", "169.254.169.254", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1"]
hosts += ["[64:ff9b::7f00:1]", "[fe80::1]", "[fd00::1]", "127.0.0.1.nip.io", "metadata.google.internal"]
for host in hosts:
    for what, action in (
        ("CONNECT", lambda: connect(f"{host}:{port}")),
        ("GET", lambda: fetch(f"http://{host}:{port}/", f"{host}:{port}")),
        ("SOCKS", lambda: socks(host.strip("[]"), port)),
    ):
        try:
            (escaped if action() else contained)(f"{what} {host}")
        except OSError as error:
            contained(f"{what} {host}: {error}")
finish()
