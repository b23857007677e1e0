# tries: sort more than fits into one buffer, with files in between
# expect: exit 0
set -e
seq 1 500000 | sort -S 2M --parallel=2 -r -T /tmp | sort -n -S 1M -T /tmp >/tmp/sorted
wc -l </tmp/sorted
cksum /tmp/sorted
