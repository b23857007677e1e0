# tries: a second file whose name differs only in case
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; UNEXPECTED_FILE 1; MISSING_OUTPUT 1
open("/out/report.txt", "w").write("one")
open("/out/REPORT.TXT", "w").write("two: quokka")
