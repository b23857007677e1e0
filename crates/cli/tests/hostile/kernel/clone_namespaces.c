// tries: start a child in new namespaces by the oldest call
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    int flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID, CLONE_NEWNET,
                   CLONE_NEWIPC,  CLONE_NEWUTS, 0x02000000,   CLONE_NEWUSER | CLONE_NEWNS};
    for (unsigned at = 0; at < sizeof flags / sizeof *flags; at++) {
        fflush(stdout);
        long child = syscall(SYS_clone, flags[at] | SIGCHLD, 0, 0, 0, 0);
        if (child == 0)
            _exit(0);
        char what[32];
        snprintf(what, sizeof what, "clone 0x%x", flags[at]);
        if (must_fail(what, child))
            waitpid(child, NULL, 0);
    }
    return verdict();
}
