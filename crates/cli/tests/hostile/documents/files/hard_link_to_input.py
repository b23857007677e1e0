# tries: to make an input an output by a second name
# outputs: report.txt
# run: 0
# exit_code: 0
# notes: MISSING_OUTPUT 1
import os

try:
    os.link("/in/main.py", "/out/report.txt")
    raise SystemExit(42)
except OSError as error:
    print("quokka contained:", type(error).__name__)
