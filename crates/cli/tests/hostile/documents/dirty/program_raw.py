# tries: a program as it is
# run: 0
# exit_code: 0
# notes: PAYLOAD_IN_STDOUT *
# hides: quokka
import sys

sys.stdout.buffer.write(b"quokka\n" + open(sys.executable, "rb").read(3000))
