# tries: to take longer than it may
# run: 5
# exit_code: 137
# notes: TIMED_OUT 1
# more: --time 1
# shows: quokka began
import time

print("quokka began", flush=True)
time.sleep(600)
