# tries: to leave a link that whoever follows it later fills
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; REFUSED_FILE 1; MISSING_OUTPUT 1
import os

os.symlink("nothing-here", "/out/report.txt")
