# tries: change and replace a file that is only to be read, which its owner may
# expect: exit 0
# diff: workspace ~readonly.txt
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
chmod 600 readonly.txt || exit 1
echo changed >readonly.txt
chmod 444 readonly.txt
