// tries: open files and never close them
// flags: --files 64 --time 20
// expect: limit openFiles
#include "../probe.h"

int main(void) {
    // It does not end by itself: what it could not open it tries again.
    for (;;)
        if (open("/dev/null", O_RDONLY) < 0)
            sched_yield();
}
