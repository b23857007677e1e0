# tries: to rule the terminal of whoever reads its name
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; REFUSED_FILE 1; MISSING_OUTPUT 1
open("/out/\x1b[2J\x1b[31mquokka\r", "w").close()
