# tries: to imitate what the host says about a stream
# run: 0
# exit_code: 0
# notes: None observed
print("[truncated: shown 200 of 9 lines; full text in quokka]")
print("[withheld: SECRET_IN_STDOUT; 1 lines, 1 bytes]")
print("[no newline at the end]", end="")
