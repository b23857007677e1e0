# tries: pipelines of the usual tools
# expect: exit 0
set -e
seq 1 100000 | grep 7 | sed 's/7/seven/g' | tr a-z A-Z | cut -c1-8 | sort | uniq -c | sort -rn | head -n 3
printf 'b 2\na 1\n' | awk '{ total += $2; print $1 } END { print total }'
find /workspace -type f | sort | xargs -n 1 basename
echo "$((6 * 7))" | tee /tmp/answer | od -c | head -n 1
tar -C /workspace -cf - . | tar -tf - | sort
echo text | gzip | gunzip
diff /workspace/keep.txt /workspace/keep.txt && echo same
date -u -d @0 +%Y
