// tries: trace the first process and the parent
// expect: exit 0
#include "../probe.h"
#include <sys/ptrace.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    only_in_a_box();
    must_fail("PTRACE_SEIZE of 1", ptrace(PTRACE_SEIZE, 1, 0, 0));
    must_fail("PTRACE_ATTACH to 1", ptrace(PTRACE_ATTACH, 1, 0, 0));
    must_fail("PTRACE_SEIZE of the parent", ptrace(PTRACE_SEIZE, getppid(), 0, 0));
    int host = atoi(fact("hostpid", "0"));
    if (host > 0)
        must_fail("PTRACE_SEIZE of a host process", ptrace(PTRACE_SEIZE, host, 0, 0));
    return verdict();
}
