// tries: enter namespaces through /proc, its own and those of the first process
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

static const char *KINDS[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};
static char path[64];

static void enter(void) {
    int namespace = open(path, O_RDONLY);
    if (namespace < 0) {
        contained("%s: %s", path, strerror(errno));
        return;
    }
    must_be_refused(path, setns(namespace, 0));
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    for (unsigned at = 0; at < sizeof KINDS / sizeof *KINDS; at++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", KINDS[at]);
        in_child(enter);
        snprintf(path, sizeof path, "/proc/1/ns/%s", KINDS[at]);
        in_child(enter);
    }
    int self = syscall(434, getpid(), 0);
    must_be_refused("setns by process", syscall(SYS_setns, self, CLONE_NEWUTS));
    return verdict();
}
