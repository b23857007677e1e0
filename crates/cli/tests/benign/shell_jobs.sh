# tries: background jobs, traps, here documents and process groups
# expect: exit 0
trap 'echo trapped' USR1
kill -USR1 $$
sleep 1000 &
job=$!
kill $job
wait $job
echo "job ended with $?"
cat <<TEXT
a here document
TEXT
(exit 7) || echo "inner ended with $?"
timeout 1 sleep 1000
echo "timeout ended with $?"
nice -n 5 true && echo nicer
