# tries: sleep longer than allowed
# flags: --time 1
# expect: limit wallTime
exec sleep 1000
