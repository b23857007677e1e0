# tries: to write through a directory that is a link
# outputs: plots/report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; REFUSED_FILE 1; MISSING_OUTPUT 1
import os

os.mkdir("/tmp/elsewhere")
os.symlink("/tmp/elsewhere", "/out/plots")
open("/out/plots/report.txt", "w").write("quokka")
