// tries: signal the caller through a shared process group or session
// expect: exit 0
// bare: escapes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    // Zero means: in a namespace that cannot be seen from here.
    if (getsid(0) == 0)
        escaped("the session is the caller's");
    if (getpgrp() == 0)
        escaped("the process group is the caller's");
    int host = atoi(fact("hostpid", "0"));
    if (host > 0 && getsid(host) >= 0)
        escaped("the session of a process of the host can be asked for");
    return verdict();
}
