// tries: use up the inodes with empty files
// flags: --inodes 500
// expect: limit inodes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char name[512];
    for (int number = 0; number < 20000; number++) {
        snprintf(name, sizeof name, "%s/inode-%d", fact("ws", "/workspace"), number);
        int file = open(name, O_CREAT | O_WRONLY, 0644);
        if (file < 0) {
            perror("open");
            return 1;
        }
        close(file);
    }
    puts("made 20000");
    return 0;
}
