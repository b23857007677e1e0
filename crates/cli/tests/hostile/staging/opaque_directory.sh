# tries: delete a directory and make it anew with less in it: what was deleted must not come back
# expect: exit 0
# diff: workspace ?dir ~dir/inner.txt -dir/deep -dir/deep/leaf.txt
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
rm -r dir && mkdir dir && echo anew >dir/inner.txt
