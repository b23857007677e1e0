// tries: put another kernel in place
// expect: exit 0
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    only_in_a_box();
    // Flags that no kernel knows.
    must_be_refused("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0xffff));
#ifdef SYS_kexec_file_load
    must_be_refused("kexec_file_load", syscall(SYS_kexec_file_load, -1, -1, 0, NULL, 0xffff));
#endif
    return verdict();
}
