// tries: flood the output in the time of grace
// flags: --time 1 --output-bytes 65536
// expect: limit wallTime or limit output
#include "../probe.h"

static void flood(int number) {
    (void)number;
    for (;;)
        if (write(1, "not yet\n", 8) < 0)
            pause();
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, flood);
    for (;;)
        pause();
}
