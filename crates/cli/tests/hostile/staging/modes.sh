# tries: open everything to everybody
# expect: exit 0
# diff: workspace ?. ~keep.txt ~readonly.txt ~.hidden ~run.sh ~empty ~dir ~dir/inner.txt ~dir/deep ~dir/deep/leaf.txt
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
chmod -R 0777 . keep.txt readonly.txt .hidden run.sh empty dir 2>/dev/null
# Its mode is also that of a file outside, which is another matter.
chmod 0644 shared.txt
