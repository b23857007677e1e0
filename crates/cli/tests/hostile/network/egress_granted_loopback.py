# tries: be granted a name that means the host itself
# flags: --allow-host localhost
# expect: exit 0 or exit 2
from probe import contained, escaped, fact, finish
from proxy_client import connect, fetch, socks

port = int(fact("port"))
for what, action in (
    ("CONNECT", lambda: connect(f"localhost:{port}")),
    ("GET", lambda: fetch(f"http://localhost:{port}/", f"localhost:{port}")),
    ("SOCKS", lambda: socks("localhost", port)),
):
    try:
        (escaped if action() else contained)(what)
    except OSError as error:
        contained(f"{what}: {error}")
finish()
