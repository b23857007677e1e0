// tries: outlive its time by ignoring every signal that can be ignored
// flags: --time 1
// expect: limit wallTime
#include "../probe.h"

int main(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    for (;;)
        pause();
}
