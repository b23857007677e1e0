# tries: read and write the host through symbolic links with absolute and relative targets
# expect: exit 0
# bare: escapes
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
for target in "$fact_canary/secret.txt" "../../../../../../../../..$fact_canary/secret.txt" \
    "/proc/self/root$fact_canary/secret.txt" "/proc/1/root$fact_canary/secret.txt"; do
    ln -s "$target" hostile-link
    must_fail grep -q . hostile-link
    rm hostile-link
done
finish
