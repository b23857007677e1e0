// tries: become the one who is asked about system calls
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static void listen_in(void) {
    struct sock_filter ask = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    struct sock_fprog filter = {1, &ask};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    must_fail("a listener", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                    SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    in_child(listen_in);
    return verdict();
}
