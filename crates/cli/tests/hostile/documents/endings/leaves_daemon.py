# tries: to go on after its end
# run: 0
# exit_code: 0
# notes: None observed
# shows: quokka began
import os
import time

print("quokka began", flush=True)
if os.fork() == 0:
    os.setsid()
    for name in (1, 2):
        os.close(name)
    time.sleep(600)
