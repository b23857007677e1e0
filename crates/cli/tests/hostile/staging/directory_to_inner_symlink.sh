# tries: put a link to another directory of the workspace where a directory was, which is allowed
# expect: exit 0
# diff: workspace ~dir -dir/inner.txt -dir/deep -dir/deep/leaf.txt +empty/inner.txt
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
rm -r dir
ln -s empty dir
echo through the link >dir/inner.txt
