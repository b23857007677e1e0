# tries: the fork bomb of the shell; one cap holds processes and threads, and where forks are refused without a trace, it may fizzle out unseen
# flags: --pids 32 --time 5
# expect: limit processes or limit threads or limit wallTime
bomb() {
    bomb | bomb &
}
bomb
while :; do
    sleep 1
done
