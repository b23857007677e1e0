// tries: get privileges back by prctl
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <linux/capability.h>
#include <sys/prctl.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_fail("no_new_privs off", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    for (int capability = 0; capability <= CAP_LAST_CAP; capability++)
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) == 0)
            escaped("ambient capability %d", capability);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    must_fail("securebits", prctl(PR_SET_SECUREBITS, 0x3f, 0, 0, 0));
    if (!status_is("NoNewPrivs", "1"))
        escaped("new privileges are possible");
    if (!status_is("CapEff", "0000000000000000") || !status_is("CapPrm", "0000000000000000") ||
        !status_is("CapBnd", "0000000000000000"))
        escaped("there are capabilities");
    return verdict();
}
