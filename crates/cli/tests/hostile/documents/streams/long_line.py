# tries: a single line without end
# run: 0
# exit_code: 0
# notes: None observed
# left: stdout.txt
print("quokka" * 1_000_000)
