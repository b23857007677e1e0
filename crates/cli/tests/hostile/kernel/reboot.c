// tries: restart the machine, with a magic number that no machine obeys
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_be_refused("reboot", syscall(SYS_reboot, 0, 0, 0, NULL));
    return verdict();
}
