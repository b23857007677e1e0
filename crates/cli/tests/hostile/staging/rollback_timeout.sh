# tries: change the workspace and then never end
# flags: --time 1
# expect: limit wallTime
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
rm -r dir
echo changed >keep.txt
echo result >"$fact_out/result.txt"
exec sleep 1000
