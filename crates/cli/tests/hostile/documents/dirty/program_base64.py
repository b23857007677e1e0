# tries: a program as text
# run: 0
# exit_code: 0
# notes: PAYLOAD_IN_STDOUT *
# hides: quokka
import base64
import sys

program = open(sys.executable, "rb").read(6000)
print("quokka")
print(base64.b64encode(program).decode())
