# tries: make whoever reads the outputs wait for ever
# expect: exit 0 or refused STAGING_REFUSED
# diff: out ?report.txt
. "$(dirname "$0")/probe.sh"
echo fine >"$fact_out/report.txt"
mkfifo "$fact_out/pipe"
exit 0
