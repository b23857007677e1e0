// tries: a fork bomb whose children leave the session and the process group
// flags: --pids 32 --time 20
// expect: limit processes
#include "../probe.h"

int main(void) {
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    for (;;)
        if (fork() == 0)
            setsid();
}
