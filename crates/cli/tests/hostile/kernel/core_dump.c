// tries: dump core, which may start a program of the host
// flags: --time 20
// expect: exit 0
#include "../probe.h"
#include <sys/prctl.h>
#include <sys/resource.h>

static void crash(void) {
    struct rlimit core;
    getrlimit(RLIMIT_CORE, &core);
    core.rlim_cur = core.rlim_max;
    setrlimit(RLIMIT_CORE, &core);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (chdir(fact("ws", "/workspace")) == 0)
        abort();
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    int status = in_child(crash);
    if (WCOREDUMP(status))
        escaped("core was dumped");
    return verdict();
}
