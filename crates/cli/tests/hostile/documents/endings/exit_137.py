# tries: the same by its exit code
# run: 1
# exit_code: 137
# notes: None observed
raise SystemExit(137)
