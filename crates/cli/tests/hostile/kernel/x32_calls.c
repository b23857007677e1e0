// tries: the calls of the x32 interface, whose numbers a filter may forget
// expect: exit 0
#include "../probe.h"

#ifdef __x86_64__
static void call(void) {
    long x32 = 0x40000000;
    must_fail("x32 getpid", syscall(x32 | SYS_getpid));
    must_fail("x32 unshare", syscall(x32 | SYS_unshare, CLONE_NEWUSER));
    // ptrace has a number of its own there.
    must_fail("x32 ptrace", syscall(x32 | 521, 0, 0, 0, 0));
}
#endif

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
#ifdef __x86_64__
    int status = in_child(call);
    if (WIFSIGNALED(status))
        contained("killed by signal %d", WTERMSIG(status));
#endif
    return verdict();
}
