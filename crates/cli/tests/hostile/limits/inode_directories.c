// tries: use up the inodes with directories
// flags: --inodes 500
// expect: limit inodes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char name[512];
    for (int number = 0; number < 20000; number++) {
        snprintf(name, sizeof name, "%s/inode-%d", fact("ws", "/workspace"), number);
        if (mkdir(name, 0755) < 0) {
            perror("mkdir");
            return 1;
        }
    }
    puts("made 20000");
    return 0;
}
