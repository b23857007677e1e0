// tries: kill every process that it can see, the keeper of the box included
// expect: exit 0
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    only_in_a_box();
    // All but the caller itself and the first process.
    kill(-1, SIGTERM);
    kill(-1, SIGKILL);
    for (int number = 1; number < 32; number++)
        if (getpid() != 1)
            kill(1, number);
    // Still there, and the host still listens.
    return verdict();
}
