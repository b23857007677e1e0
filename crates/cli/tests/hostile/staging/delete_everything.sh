# tries: delete all of the workspace and the workspace itself
# expect: exit 0
# diff: workspace -keep.txt -run.sh -readonly.txt -.hidden -shared.txt -link -empty -dir -dir/inner.txt -dir/deep -dir/deep/leaf.txt
. "$(dirname "$0")/probe.sh"
rm -rf "$fact_ws"/* "$fact_ws"/.[!.]*
rmdir "$fact_ws" 2>/dev/null
mv "$fact_ws" /tmp/elsewhere 2>/dev/null
[ -d "$fact_ws" ]
