# tries: to look as if the host had ended it
# run: 1
# exit_code: 137
# notes: KILLED_BY_SIGNAL 1; MISSING_OUTPUT 1
# outputs: report.txt
import os
import signal

open("/out/report.txt", "w").write("quokka")
os.kill(os.getpid(), signal.SIGKILL)
