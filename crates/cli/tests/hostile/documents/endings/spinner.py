# tries: to use more of the processor than it may
# run: 5
# exit_code: 137
# notes: LIMIT_REACHED 1 or TIMED_OUT 1
# more: --time 2
# shows: quokka began
import os

print("quokka began", flush=True)
for _ in range(3):
    os.fork()
while True:
    pass
