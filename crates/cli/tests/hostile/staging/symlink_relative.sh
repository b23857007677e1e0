# tries: leave a link that climbs out
# expect: refused STAGING_REFUSED
. "$(dirname "$0")/probe.sh"
ln -s ../../../../../../etc/passwd "$fact_ws/dir/passwd"
