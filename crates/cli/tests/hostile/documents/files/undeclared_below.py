# tries: the same in a directory
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; UNEXPECTED_FILE 1; MISSING_OUTPUT 1
import os

open("/out/report.txt", "w").write("announced")
os.makedirs("/out/a/b")
open("/out/a/b/quokka", "w").write("hidden")
