# tries: flood through children, deaf to SIGPIPE and SIGTERM, after the parent is gone
# flags: --output-bytes 65536 --time 10
# expect: limit output or exit 0
import os
import signal

signal.signal(signal.SIGPIPE, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        while True:
            try:
                os.write(1, b"x" * 4096)
            except OSError:
                signal.pause()
os._exit(0)
