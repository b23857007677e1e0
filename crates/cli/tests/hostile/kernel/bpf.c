// tries: load a map and a program into the kernel
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    // An array of one entry: type, size of key, size of value, number of entries.
    uint32_t map[32] = {2, 4, 4, 1};
    must_be_refused("bpf: make a map", syscall(SYS_bpf, 0, map, sizeof map));
    static char program[128];
    must_be_refused("bpf: load a program", syscall(SYS_bpf, 5, program, sizeof program));
    return verdict();
}
