# tries: put a link to /etc where a directory was
# expect: refused STAGING_REFUSED
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
rm -r dir
ln -s /etc dir
