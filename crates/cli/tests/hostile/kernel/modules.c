// tries: load and unload modules of the kernel
// expect: exit 0
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    only_in_a_box();
    must_be_refused("init_module", syscall(SYS_init_module, NULL, 0, ""));
    must_be_refused("finit_module", syscall(SYS_finit_module, -1, "", 0));
    must_be_refused("delete_module", syscall(SYS_delete_module, "no_such_module", O_NONBLOCK));
    return verdict();
}
