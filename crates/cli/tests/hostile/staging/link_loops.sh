# tries: links that lead to each other, to themselves and nowhere
# expect: exit 0 or refused STAGING_REFUSED
# diff: workspace ?one ?two ?self ?nowhere ?dir/around
. "$(dirname "$0")/probe.sh"
cd "$fact_ws" || exit 1
ln -s two one
ln -s one two
ln -s self self
ln -s missing nowhere
ln -s ../dir dir/around
