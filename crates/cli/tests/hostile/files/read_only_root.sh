# tries: write into every directory that is not its own
# expect: exit 0
# bare: escapes as root
. "$(dirname "$0")/probe.sh"
for place in / /usr /usr/bin /usr/lib /usr/local/bin /bin /lib /etc /var /opt /home /run /proc /sys; do
    if mkdir "$place/hostile-$$" 2>/dev/null; then
        escaped "$place can be written"
        rmdir "$place/hostile-$$"
    else
        contained "$place"
    fi
done
finish
