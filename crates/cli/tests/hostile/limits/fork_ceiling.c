// tries: have more processes at once than allowed, politely
// flags: --pids 32
// expect: exit 0 or limit processes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    int alive = 1;
    for (; alive < 128; alive++) {
        pid_t child = fork();
        if (child == 0)
            for (;;)
                pause();
        if (child < 0)
            break;
    }
    if (alive > 32)
        escaped("%d processes at once", alive);
    else
        contained("%d processes, then: %s", alive, strerror(errno));
    return verdict();
}
