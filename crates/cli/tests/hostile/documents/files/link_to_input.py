# tries: to pass an input on as an output
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; REFUSED_FILE 1; MISSING_OUTPUT 1
import os

os.symlink("/in/main.py", "/out/report.txt")
