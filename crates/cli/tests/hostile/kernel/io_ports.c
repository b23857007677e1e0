// tries: talk to the hardware by its ports
// expect: exit 0
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
#ifdef SYS_iopl
    must_be_refused("iopl", syscall(SYS_iopl, 3));
#endif
#ifdef SYS_ioperm
    must_be_refused("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
#endif
    must_fail("/dev/port", open("/dev/port", O_RDWR));
    must_fail("/dev/mem", open("/dev/mem", O_RDONLY));
    return verdict();
}
