# tries: flood both outputs at once
# flags: --output-bytes 65536
# expect: limit output
yes out &
yes err >&2
