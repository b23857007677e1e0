// tries: burn the processor in short lives, each far below the limit
// flags: --cpu-time 1 --time 40
// expect: limit cpuTime
#include "../probe.h"
#include <time.h>

int main(void) {
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            struct timespec used;
            do
                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
            while (used.tv_sec == 0 && used.tv_nsec < 50000000);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}
