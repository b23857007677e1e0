# tries: to hand out a file of the machine as its own
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; REFUSED_FILE 1; MISSING_OUTPUT 1
import os

os.symlink("/etc/passwd", "/out/report.txt")
print("quokka")
