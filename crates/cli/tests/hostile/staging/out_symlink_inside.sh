# tries: put a link among the outputs that stays there; outputs are files, so this is refused as well
# expect: refused STAGING_REFUSED
. "$(dirname "$0")/probe.sh"
echo fine >"$fact_out/report.txt"
ln -s report.txt "$fact_out/latest"
