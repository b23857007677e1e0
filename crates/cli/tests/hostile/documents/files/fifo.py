# tries: to leave something that whoever reads it waits for
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; REFUSED_FILE 1; MISSING_OUTPUT 1
import os

os.mkfifo("/out/report.txt")
