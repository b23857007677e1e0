# tries: names that look like a way up
# expect: exit 0
# diff: out +... +..hidden +a..b +\..\up
. "$(dirname "$0")/probe.sh"
cd "$fact_out" || exit 1
for name in ... ..hidden a..b '\..\up'; do
    echo x >"./$name" || exit 1
done
