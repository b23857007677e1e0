# tries: times before the beginning and after the end
# expect: exit 0
# diff: out +past.txt +future.txt
. "$(dirname "$0")/probe.sh"
cd "$fact_out" || exit 1
echo past >past.txt && touch -d @-1000000000 past.txt
echo future >future.txt && touch -d @9999999999 future.txt
[ -s past.txt ] && [ -s future.txt ]
