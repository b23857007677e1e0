// tries: leave hundreds of dead orphans, which the box has to bury
// flags: --pids 400
// expect: exit 0
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    for (int number = 0; number < 500; number++) {
        int gone[2];
        if (pipe(gone) < 0)
            return 1;
        pid_t child = fork();
        if (child < 0) {
            printf("after %d orphans: %s\n", number, strerror(errno));
            return 1;
        }
        if (child == 0) {
            // The grandchild is an orphan once this one is gone.
            if (fork() < 0)
                _exit(1);
            _exit(0);
        }
        close(gone[1]);
        char byte;
        int status;
        waitpid(child, &status, 0);
        // The end of the pipe is seen when the orphan is dead.
        if (read(gone[0], &byte, 1) != 0 || WEXITSTATUS(status) != 0)
            return 1;
        close(gone[0]);
    }
    return verdict();
}
