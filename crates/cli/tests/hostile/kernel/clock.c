// tries: set the clocks of the machine
// expect: exit 0
#include "../probe.h"
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    only_in_a_box();
    struct timeval now;
    struct timespec precise;
    gettimeofday(&now, NULL);
    must_be_refused("settimeofday", syscall(SYS_settimeofday, &now, NULL));
    clock_gettime(CLOCK_REALTIME, &precise);
    must_be_refused("clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &precise));
    // As it was: the status is set to what it is.
    struct timex tuning = {.modes = 0};
    if (adjtimex(&tuning) >= 0) {
        tuning.modes = ADJ_STATUS;
        must_be_refused("adjtimex", adjtimex(&tuning));
        tuning.modes = ADJ_STATUS;
        must_be_refused("clock_adjtime", clock_adjtime(CLOCK_REALTIME, &tuning));
    }
    return verdict();
}
