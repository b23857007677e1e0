// tries: become root, or anybody else
// expect: exit 0
// bare: escapes as root
#include "../probe.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct all[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
    gid_t groups[] = {0, 6};
    must_fail("capset", syscall(SYS_capset, &header, all));
    must_fail("setgroups", setgroups(2, groups));
    must_fail("setgid", setgid(0));
    must_fail("setresgid", setresgid(0, 0, 0));
    must_fail("setuid", setuid(0));
    must_fail("setresuid", setresuid(0, 0, 0));
    must_fail("setreuid", setreuid(0, 0));
    setfsuid(0);
    if (setfsuid(-1) == 0)
        escaped("setfsuid");
    if (getuid() == 0 || geteuid() == 0)
        escaped("the user is root");
    return verdict();
}
