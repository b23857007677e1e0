// tries: exchange the root
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_be_refused("pivot_root", syscall(SYS_pivot_root, "/nowhere", "/nowhere/old"));
    return verdict();
}
