# tries: to look as if it had never begun
# run: 1
# exit_code: 127
# notes: None observed
raise SystemExit(127)
