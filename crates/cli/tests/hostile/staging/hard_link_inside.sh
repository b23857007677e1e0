# tries: give one file two names and change it by one of them
# expect: exit 0
# diff: workspace +twin.txt ~keep.txt
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
ln keep.txt twin.txt || exit 1
echo changed >>twin.txt
