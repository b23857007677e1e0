# tries: to wait for somebody to type
# run: 0
# exit_code: 0
# notes: None observed
# shows: quokka contained
import sys

if sys.stdin.read() != "":
    raise SystemExit(42)
print("quokka contained")
