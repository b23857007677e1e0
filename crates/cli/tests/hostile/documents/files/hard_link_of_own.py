# tries: one file under two names, then changed by the second
# outputs: report.txt copy.txt
# run: 0
# exit_code: 0
# notes: None observed
# left: report.txt copy.txt
import os

open("/out/report.txt", "w").write("quokka")
os.link("/out/report.txt", "/out/copy.txt")
open("/out/copy.txt", "w").write("changed")
