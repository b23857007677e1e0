# tries: change a file of the host that shares its content with one in the workspace
# expect: exit 0
# diff: workspace ~shared.txt
. "$(dirname "$0")/probe.sh"
# The harness sees to it that the file outside stays as it was.
echo changed >>"$fact_ws/shared.txt"
