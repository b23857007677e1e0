// tries: watch by performance counters
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    // The processor clock, a counter of software, of this process alone, without the kernel.
    uint64_t event[16] = {0};
    event[0] = 1 | (uint64_t)64 << 32;
    event[5] = 1 << 5 | 1 << 6;
    must_be_refused("perf_event_open", syscall(SYS_perf_event_open, event, 0, -1, -1, 0));
    return verdict();
}
