# tries: change everything and then fail: nothing of it may stay
# expect: exit 3
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
echo changed >>keep.txt
chmod 777 run.sh
rm -r dir readonly.txt
ln -s /etc evil
mkfifo pipe
echo result >"$fact_out/result.txt"
exit 3
