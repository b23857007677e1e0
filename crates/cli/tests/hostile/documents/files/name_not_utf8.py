# tries: a name that is no text
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; REFUSED_FILE 1; MISSING_OUTPUT 1
open(b"/out/quokka-\xff\xfe", "w").close()
