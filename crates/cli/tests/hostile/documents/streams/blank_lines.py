# tries: nothing but line ends
# run: 0
# exit_code: 0
# notes: None observed
print("\n" * 150)
