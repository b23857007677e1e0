// tries: manage quotas and process accounting
// expect: exit 0
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    only_in_a_box();
    // Accounting of nobody's processes: a name that does not exist.
    must_be_refused("acct", syscall(SYS_acct, "/nowhere"));
    // Q_SYNC of one device for users.
    must_fail("quotactl", syscall(SYS_quotactl, 0x80000100, "/nowhere", 0, NULL));
    must_fail("quotactl_fd", syscall(443, 0, 0x80000800, 0, NULL));
    must_be_refused("vhangup", syscall(SYS_vhangup));
    return verdict();
}
