# tries: to leave a socket
# outputs: report.txt
# run: 1
# exit_code: 0
# notes: OUTPUTS_REFUSED 1; REFUSED_FILE 1; MISSING_OUTPUT 1
import socket

socket.socket(socket.AF_UNIX).bind("/out/report.txt")
