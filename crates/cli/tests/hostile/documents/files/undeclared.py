# tries: to leave more than was announced
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; UNEXPECTED_FILE 3; MISSING_OUTPUT 1
open("/out/report.txt", "w").write("announced")
open("/out/extra.bin", "wb").write(b"quokka")
open("/out/another.bin", "wb").write(b"quokka")
open("/out/.hidden", "wb").write(b"quokka")
