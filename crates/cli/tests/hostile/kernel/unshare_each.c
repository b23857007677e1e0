// tries: leave for a namespace of its own, of every kind
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

static const struct {
    const char *name;
    int flag;
} KINDS[] = {
    {"mounts", CLONE_NEWNS},   {"processes", CLONE_NEWPID}, {"network", CLONE_NEWNET},
    {"ipc", CLONE_NEWIPC},     {"hostname", CLONE_NEWUTS},  {"cgroup", 0x02000000},
    {"time", 0x00000080},
};
static unsigned at;

static void leave(void) { must_fail(KINDS[at].name, unshare(KINDS[at].flag)); }

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    for (at = 0; at < sizeof KINDS / sizeof *KINDS; at++)
        in_child(leave);
    return verdict();
}
