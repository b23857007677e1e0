// tries: read and write the memory of other processes
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <sys/uio.h>

static char secret[16] = "secret";

static void touch(const char *what, pid_t process) {
    char copy[16];
    struct iovec here = {copy, sizeof copy}, there = {secret, sizeof secret};
    printf("%s, process %d\n", what, (int)process);
    must_be_refused("process_vm_readv", process_vm_readv(process, &here, 1, &there, 1, 0));
    must_be_refused("process_vm_writev", process_vm_writev(process, &here, 1, &there, 1, 0));
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    touch("a child", child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return verdict();
}
