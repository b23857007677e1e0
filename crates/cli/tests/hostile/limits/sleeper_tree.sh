# tries: sleep in a tree of shells that all ignore TERM
# flags: --time 1
# expect: limit wallTime
trap '' TERM INT HUP
export mark="$1"
(
    (
        sleep 1000
        sleep 1000
    ) &
    sleep 1000
) &
sleep 1000
sleep 1000
