# tries: the same, and not to go when asked
# run: 5
# exit_code: 137
# notes: TIMED_OUT 1
# more: --time 1
# shows: quokka began
import os
import signal
import time

for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]:
    signal.signal(number, signal.SIG_IGN)
print("quokka began", flush=True)
if os.fork() == 0:
    os.setsid()
while True:
    time.sleep(1)
