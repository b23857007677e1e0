// tries: calls that were removed, were never made or are not yet known to the filter
// expect: exit 0
#include "../probe.h"

static const long NUMBERS[] = {
#ifdef __x86_64__
    // uselib, _sysctl, create_module, get_kernel_syms, query_module, nfsservctl, getpmsg, putpmsg,
    // afs_syscall, tuxcall, security, lookup_dcookie, vserver, modify_ldt, uretprobe.
    134, 156, 174, 177, 178, 180, 181, 182, 183, 184, 185, 212, 236, 154, 335,
#endif
    // Numbers between the old and the new ones, and some that will not come.
    400, 423, 700, 1000, 4095, 65536, 0x3fffffff, 0x7fffffff, -1, -4096,
};
static unsigned at;

static void call(void) {
    long answer = syscall(NUMBERS[at], 0, 0, 0, 0, 0, 0);
    if (answer >= 0)
        escaped("call %ld answered %ld", NUMBERS[at], answer);
    else
        contained("call %ld: %s", NUMBERS[at], strerror(errno));
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    // Each in a process of its own: some kill whoever makes them.
    for (at = 0; at < sizeof NUMBERS / sizeof *NUMBERS; at++)
        in_child(call);
    return verdict();
}
