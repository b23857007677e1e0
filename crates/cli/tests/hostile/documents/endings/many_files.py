# tries: to make more files than anybody counts
# run: 5
# exit_code: 137
# notes: LIMIT_REACHED 1; MISSING_OUTPUT 1
# outputs: report.txt
number = 0
while True:
    open("/out/%d" % number, "w").close()
    number += 1
