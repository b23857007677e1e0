# tries: change the files of the tool, which the next call would run
# expect: exit 0
. "$(dirname "$0")/probe.sh"
[ "$fact_tool" = /tool ] || exit 1
must_fail touch /tool/new
must_fail mkdir /tool/dir
must_fail rm -f /tool/probe.sh
must_fail mv /tool/probe.sh /tool/other.sh
must_fail chmod 777 /tool/probe.sh
must_fail chmod 777 /tool
must_fail ln -s /etc/passwd /tool/link
must_fail ln /tool/probe.sh /tmp/probe.sh
must_fail ln /tool/probe.sh "$fact_ws/probe.sh"
must_fail truncate -s 0 /tool/probe.sh
must_fail sh -c ': >>/tool/probe.sh'
finish
