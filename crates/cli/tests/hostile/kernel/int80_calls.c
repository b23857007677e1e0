// tries: the calls of 32-bit programs, whose numbers mean something else
// expect: exit 0
#include "../probe.h"

#ifdef __x86_64__
static long call32(long number, long first) {
    long answer;
    __asm__ volatile("int $0x80" : "=a"(answer) : "a"(number), "b"(first), "c"(0), "d"(0)
                     : "memory", "r8", "r9", "r10", "r11");
    return answer;
}

static void call(void) {
    if (call32(20, 0) == getpid())
        escaped("getpid of 32 bits");
    if (call32(310, CLONE_NEWUSER) == 0)
        escaped("unshare of 32 bits");
    if (call32(26, 0) == 0)
        escaped("ptrace of 32 bits");
}
#endif

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
#ifdef __x86_64__
    int status = in_child(call);
    if (WIFSIGNALED(status))
        contained("killed by signal %d", WTERMSIG(status));
#endif
    return verdict();
}
