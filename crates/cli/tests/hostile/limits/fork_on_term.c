// tries: outrun the killer by forking whenever it is told to end
// flags: --time 1 --pids 64
// expect: limit wallTime or limit processes
#include "../probe.h"

static void again(int number) {
    (void)number;
    fork();
}

int main(void) {
    signal(SIGTERM, again);
    signal(SIGINT, again);
    signal(SIGHUP, again);
    for (;;)
        pause();
}
