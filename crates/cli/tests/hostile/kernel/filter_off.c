// tries: take the filter off, or put a kinder one over it
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_fail("PR_SET_SECCOMP off", prctl(PR_SET_SECCOMP, 0, 0, 0, 0));
    must_fail("strict mode off", syscall(SYS_seccomp, 0xffff, 0, NULL));
    struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    struct sock_fprog kinder = {1, &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // A further filter may be added but cannot loosen the first.
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &kinder);
    must_be_refused("unshare under the kinder filter", unshare(CLONE_NEWUTS));
    must_be_refused("personality under it", syscall(SYS_personality, 0x0040000));
    if (!status_is("Seccomp", "2"))
        escaped("there is no filter");
    return verdict();
}
