# tries: leave files and directories that nobody may read
# expect: exit 0 or refused STAGING_REFUSED
# diff: workspace ?closed ?shut ?shut/inside.txt ~keep.txt ~dir ?dir/inner.txt ?dir/deep ?dir/deep/leaf.txt
# diff: out ?closed ?shut ?shut/inside.txt
. "$(dirname "$0")/probe.sh"
for place in "$fact_ws" "$fact_out"; do
    cd "$place" || exit 1
    echo closed >closed && chmod 000 closed || exit 1
    mkdir shut && echo inside >shut/inside.txt && chmod 000 shut || exit 1
done
cd "$fact_ws" || exit 1
chmod 000 keep.txt dir
