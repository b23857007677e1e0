// tries: read the kernel's log
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    static char text[4096];
    must_be_refused("syslog: size", syscall(SYS_syslog, 10, NULL, 0));
    must_be_refused("syslog: read", syscall(SYS_syslog, 3, text, sizeof text));
    must_fail("/dev/kmsg", open("/dev/kmsg", O_RDONLY | O_NONBLOCK));
    must_fail("/dev/kmsg for writing", open("/dev/kmsg", O_WRONLY));
    must_fail("/proc/kmsg", open("/proc/kmsg", O_RDONLY | O_NONBLOCK));
    return verdict();
}
