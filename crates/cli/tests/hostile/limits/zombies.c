// tries: fill the process table with children that nobody waits for
// flags: --pids 32 --time 20
// expect: limit processes
#include "../probe.h"

int main(void) {
    for (;;)
        if (fork() == 0)
            _exit(0);
}
