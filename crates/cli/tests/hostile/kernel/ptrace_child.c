// tries: trace its own child, which is how a filter's decisions are rewritten
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <sys/ptrace.h>

static void be_traced(void) { must_be_refused("PTRACE_TRACEME", ptrace(PTRACE_TRACEME, 0, 0, 0)); }

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    in_child(be_traced);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    must_be_refused("PTRACE_SEIZE", ptrace(PTRACE_SEIZE, child, 0, 0));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return verdict();
}
