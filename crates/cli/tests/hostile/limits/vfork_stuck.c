// tries: hang in the kernel, waiting for a child that is stopped
// flags: --time 1
// expect: limit wallTime
#include "../probe.h"

int main(void) {
    // What vfork does, without the promises that compilers make about it.
    if (syscall(SYS_clone, 0x4000 | SIGCHLD, 0, 0, 0, 0) == 0) {
        kill(getpid(), SIGSTOP);
        _exit(0);
    }
    for (;;)
        pause();
}
