# tries: to leave what its reader may not read
# outputs: report.txt
# run: 0
# exit_code: 0
# notes: None observed
# left: report.txt
import os

open("/out/report.txt", "w").write("readable after all")
os.chmod("/out/report.txt", 0)
os.chmod("/out", 0)
