// tries: start a child by clone3, whose flags no filter can see; it must look as if it did not exist
// expect: exit 0
// bare: escapes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    uint64_t arguments[11] = {0};
    arguments[4] = SIGCHLD;
    long child = syscall(435, arguments, sizeof arguments);
    if (child == 0)
        _exit(0);
    if (child > 0) {
        waitpid(child, NULL, 0);
        escaped("clone3");
    } else if (errno != ENOSYS) {
        // A library falls back to clone only when told that the call does not exist.
        printf("wrong: clone3: %s\n", strerror(errno));
        return 1;
    }
    return verdict();
}
