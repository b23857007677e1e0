// tries: burn the processor
// flags: --cpu-time 1 --time 40
// expect: limit cpuTime
#include "../probe.h"

int main(void) {
    signal(SIGXCPU, SIG_IGN);
    for (volatile unsigned long turns = 0;; turns++)
        ;
}
