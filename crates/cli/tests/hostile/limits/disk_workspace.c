// tries: fill the disk through the workspace
// flags: --total-size 16
// expect: limit totalSize
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    char name[512];
    for (int number = 0; number < 256; number++) {
        snprintf(name, sizeof name, "%s/filler-%d", fact("ws", "/workspace"), number);
        int file = open(name, O_CREAT | O_WRONLY, 0644);
        if (write(file, block, sizeof block) < 0) {
            perror("write");
            return 1;
        }
        close(file);
    }
    puts("wrote 256 MiB");
    return 0;
}
