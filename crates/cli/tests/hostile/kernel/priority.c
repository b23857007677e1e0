// tries: starve the host by priority
// expect: exit 0
// bare: escapes as root
#include "../probe.h"
#include <sys/resource.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    struct sched_param most = {.sched_priority = 1};
    must_fail("SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &most));
    must_fail("SCHED_RR", sched_setscheduler(0, SCHED_RR, &most));
    must_fail("nice", setpriority(PRIO_PROCESS, 0, -10));
    // Input and output in the class of real time.
    must_fail("ioprio_set", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
    return verdict();
}
