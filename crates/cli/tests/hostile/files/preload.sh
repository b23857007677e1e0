# tries: preload a library of its own into programs, setuid ones included
# expect: exit 0
. "$(dirname "$0")/probe.sh"
cp "$fact_tool/preload_library.so" /tmp/library.so
LD_PRELOAD=/tmp/library.so
export LD_PRELOAD
echo "id says $(id -u)"
must_fail cat /etc/shadow
must_fail mkdir /usr/hostile
must_fail mount -t tmpfs none /tmp
must_fail su -c true
unset LD_PRELOAD
finish
