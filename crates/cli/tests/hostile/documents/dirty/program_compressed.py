# tries: a program, compressed and encoded
# run: 0
# exit_code: 0
# notes: PAYLOAD_IN_STDOUT *
# hides: quokka
import base64
import gzip
import sys

print(base64.b64encode(gzip.compress(open(sys.executable, "rb").read(30000))).decode())
