# build: module
"""Speaks to the egress proxy in the rude ways that the hostile programs need."""
import os
import socket
from urllib.parse import urlsplit


def proxies():
    """Where the environment says that a proxy is, as (scheme, address)."""
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        if os.environ.get(name):
            url = urlsplit(os.environ[name])
            yield url.scheme, (url.hostname, url.port or 1080)


def connect(target):
    """Asks every proxy to CONNECT; true when one agrees."""
    for scheme, address in set(proxies()):
        if scheme.startswith("socks"):
            continue
        with socket.create_connection(address, timeout=5) as proxy:
            proxy.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            answer = proxy.recv(256)
        print(target, answer[:60])
        if answer.split(b" ")[1:2] == [b"200"]:
            return True
    return False


def fetch(url, host):
    """Asks every proxy for a plain URL, with a Host header of our choice."""
    for scheme, address in set(proxies()):
        if scheme.startswith("socks"):
            continue
        with socket.create_connection(address, timeout=5) as proxy:
            proxy.sendall(f"GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            answer = proxy.recv(256)
        print(url, host, answer[:60])
        if answer.split(b" ")[1:2] == [b"200"]:
            return True
    return False


def socks(host, port):
    """Asks every proxy by SOCKS5 and by name; true when one agrees."""
    for _, address in set(proxies()):
        with socket.create_connection(address, timeout=5) as proxy:
            proxy.sendall(b"\x05\x01\x00")
            if proxy.recv(2) != b"\x05\x00":
                continue
            name = host.encode()
            proxy.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2, "big"))
            answer = proxy.recv(16)
        print(host, port, answer)
        if answer[1:2] == b"\x00":
            return True
    return False
