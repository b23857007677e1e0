// tries: stop the parent and the first process, again and again
// flags: --time 1
// expect: limit wallTime
#include "../probe.h"

int main(void) {
    pid_t parent = getpid();
    if (fork() == 0) {
        signal(SIGTERM, SIG_IGN);
        for (;;) {
            kill(parent, SIGSTOP);
            kill(1, SIGSTOP);
        }
    }
    for (;;)
        pause();
}
