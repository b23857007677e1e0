// tries: add and remove swap space
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_be_refused("swapon", syscall(SYS_swapon, "/nowhere", 0));
    must_be_refused("swapoff", syscall(SYS_swapoff, "/nowhere"));
    return verdict();
}
