// tries: take descriptors out of other processes
// expect: exit 0
// bare: escapes
#include "../probe.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static void take(const char *what, pid_t process) {
    int handle = syscall(SYS_pidfd_open, process, 0);
    if (handle < 0) {
        contained("pidfd_open of %s: %s", what, strerror(errno));
        return;
    }
    for (int descriptor = 0; descriptor < 16; descriptor++)
        if (syscall(SYS_pidfd_getfd, handle, descriptor, 0) >= 0)
            escaped("descriptor %d of %s", descriptor, what);
    contained("the rest of %s: %s", what, strerror(errno));
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    take("a child", child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (getpid() != 1)
        take("the first process", 1);
    take("the parent", getppid());
    return verdict();
}
