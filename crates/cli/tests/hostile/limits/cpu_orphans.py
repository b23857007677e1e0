# tries: burn the processor in orphans that keep replacing themselves
# flags: --cpu-time 1 --time 40
# expect: limit cpuTime
import os
import time

if os.fork() == 0:
    while True:
        while time.process_time() < 0.05:
            pass
        # The child starts with no time used and the parent is gone.
        if os.fork() > 0:
            os._exit(0)
while True:
    time.sleep(1)
