// tries: do forbidden things through io_uring, past the filter
// expect: exit 0
// bare: escapes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    static char parameters[256];
    must_be_refused("io_uring_setup", syscall(425, 4, parameters));
    must_be_refused("io_uring_enter", syscall(426, -1, 0, 0, 0, NULL, 0));
    must_be_refused("io_uring_register", syscall(427, -1, 0, NULL, 0));
    return verdict();
}
