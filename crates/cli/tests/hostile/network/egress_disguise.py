# tries: name the granted host in one place and another host in the other
# flags: --allow-host example.com
# expect: exit 0
from probe import contained, escaped, fact, finish
from proxy_client import connect, fetch

target = f"127.0.0.1:{fact('port')}"
attempts = {
    "user": lambda: connect(f"example.com@{target}"),
    "fragment": lambda: connect(f"{target}#example.com:443"),
    "null": lambda: connect(f"{target}\0.example.com:443"),
    "header": lambda: fetch(f"http://{target}/", "example.com"),
    "user in a URL": lambda: fetch(f"http://example.com@{target}/", "example.com"),
    "backslash": lambda: fetch(f"http://{target}\\@example.com/", "example.com"),
    "line": lambda: connect(f"example.com:443 HTTP/1.1\r\nX: {target}\r\n\r\nCONNECT {target}"),
    "suffix": lambda: connect("example.com.evil.invalid:443"),
    "prefix": lambda: connect("evilexample.com:443"),
    "dot": lambda: connect("..example.com:443"),
}
for what, action in attempts.items():
    if what == "line":
        # The first of the two requests may be granted; the listener of the host tells of the second.
        try:
            action()
        except OSError as error:
            contained(f"{what}: {error}")
        continue
    try:
        (escaped if action() else contained)(what)
    except OSError as error:
        contained(f"{what}: {error}")
finish()
