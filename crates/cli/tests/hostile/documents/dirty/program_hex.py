# tries: a program in hexadecimal digits
# run: 0
# exit_code: 0
# notes: PAYLOAD_IN_STDOUT *
# hides: quokka
import sys

print("quokka", open(sys.executable, "rb").read(3000).hex())
