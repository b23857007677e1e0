// tries: stop the kernel in the middle of a copy by userfaultfd
// expect: exit 0
// bare: escapes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_be_refused("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC | 1));
    must_be_refused("userfaultfd of the kernel too", syscall(SYS_userfaultfd, O_CLOEXEC));
    must_fail("/dev/userfaultfd", open("/dev/userfaultfd", O_RDWR));
    return verdict();
}
