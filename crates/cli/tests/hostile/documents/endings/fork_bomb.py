# tries: to use more processes than it may
# run: 5
# exit_code: 137
# notes: LIMIT_REACHED 1
# shows: quokka began
import os

print("quokka began", flush=True)
while True:
    os.fork()
