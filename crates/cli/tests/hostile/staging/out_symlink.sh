# tries: put a link to a secret among the outputs
# expect: refused STAGING_REFUSED
. "$(dirname "$0")/probe.sh"
echo fine >"$fact_out/report.txt"
ln -s /etc/shadow "$fact_out/leak"
