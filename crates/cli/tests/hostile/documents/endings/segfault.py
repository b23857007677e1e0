# tries: to end by a signal
# run: 1
# exit_code: 139
# notes: KILLED_BY_SIGNAL 1
# shows: quokka began
import os
import signal

print("quokka began", flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
