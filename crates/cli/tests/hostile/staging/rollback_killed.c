// tries: change the workspace and die of a signal
// expect: signal 9
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    if (chdir(fact("ws", "/workspace")) < 0)
        return 1;
    unlink("keep.txt");
    rename("dir", "moved");
    int file = open("shared.txt", O_WRONLY | O_TRUNC);
    if (write(file, "changed\n", 8) < 0)
        return 1;
    fsync(file);
    raise(SIGKILL);
    return 1;
}
