# tries: to bury files deeper than anybody looks
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; REFUSED_FILE 1; MISSING_OUTPUT 1
import os

os.chdir("/out")
for _ in range(400):
    os.mkdir("d")
    os.chdir("d")
open("report.txt", "w").write("quokka")
