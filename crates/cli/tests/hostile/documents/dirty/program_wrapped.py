# tries: the same in lines, as mail has it
# run: 0
# exit_code: 0
# notes: PAYLOAD_IN_STDOUT *
# hides: quokka
import base64
import sys

print(base64.encodebytes(open(sys.executable, "rb").read(3000)).decode())
