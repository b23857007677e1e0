// tries: send signals to processes of the host; signal 0 does no harm
// expect: exit 0
// bare: escapes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    int host = atoi(fact("hostpid", "0"));
    if (host <= 1)
        return 1;
    must_fail("kill", kill(host, 0));
    must_fail("kill of the group", kill(-host, 0));
    must_fail("pidfd_open", syscall(434, host, 0));
    return verdict();
}
