# tries: to leave directories with telling names and nothing in them
# outputs: report.txt
# run: 0
# exit_code: 0
# notes: None observed
# left: report.txt
import os

open("/out/report.txt", "w").write("announced")
os.makedirs("/out/quokka/## Summary")
