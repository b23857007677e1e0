# tries: to look like another kind of file
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; UNEXPECTED_FILE 1; MISSING_OUTPUT 1
open("/out/quokka-\u202egnp.exe", "w").close()
