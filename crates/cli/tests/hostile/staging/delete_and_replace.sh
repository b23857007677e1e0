# tries: files where directories were and directories where files were
# expect: exit 0
# diff: workspace ~dir -dir/inner.txt -dir/deep -dir/deep/leaf.txt ~keep.txt +keep.txt/new.txt ~link -empty
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
rm -r dir && echo now a file >dir || exit 1
rm keep.txt && mkdir keep.txt && echo new >keep.txt/new.txt || exit 1
rm link && echo a file >link || exit 1
rmdir empty
