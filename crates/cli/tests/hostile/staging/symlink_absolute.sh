# tries: leave a link to a file of the host, and write through it first
# expect: refused STAGING_REFUSED
. "$(dirname "$0")/probe.sh"
ln -s /etc/passwd "$fact_ws/passwd"
echo intruder:x:0:0::/:/bin/sh >>"$fact_ws/passwd"
exit 0
