# tries: the same aside
# run: 0
# exit_code: 0
# notes: SECRET_IN_STDERR 1
# hides: quokka
import sys

print("the quokka's key is gh" + "p_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7j", file=sys.stderr)
