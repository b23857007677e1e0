// tries: exchange a directory and a link to the host while the workspace is published
// expect: refused STAGING_REFUSED
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    int started[2];
    if (chdir(fact("ws", "/workspace")) < 0 || pipe(started) < 0)
        return 1;
    if (symlink(fact("canary", "/etc"), "race") < 0)
        return 1;
    if (fork() == 0) {
        setsid();
        signal(SIGTERM, SIG_IGN);
        for (unsigned turn = 0;; turn++) {
            // Exchanges both in one step.
            syscall(SYS_renameat2, AT_FDCWD, "dir", AT_FDCWD, "race", 2);
            if (turn == 16 && write(started[1], "s", 1) < 1)
                _exit(1);
        }
    }
    char byte;
    if (read(started[0], &byte, 1) < 1)
        return 1;
    int file = open("dir/inner.txt", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (file >= 0 && write(file, "raced\n", 6) < 0)
        return 1;
    return 0;
}
