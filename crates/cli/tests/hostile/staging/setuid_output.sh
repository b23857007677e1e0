# tries: leave programs that run as whoever publishes them
# expect: exit 0 or refused STAGING_REFUSED
# diff: workspace ?run.sh ?new ?shared-dir
# diff: out ?program ?group ?sticky
. "$(dirname "$0")/probe.sh"
cp /bin/sh "$fact_out/program" && chmod 6755 "$fact_out/program"
echo x >"$fact_out/group" && chmod 2755 "$fact_out/group"
mkdir "$fact_out/sticky" && chmod 3777 "$fact_out/sticky"
chmod 4755 "$fact_ws/run.sh"
echo x >"$fact_ws/new" && chmod 7777 "$fact_ws/new"
mkdir "$fact_ws/shared-dir" && chmod 2777 "$fact_ws/shared-dir"
exit 0
