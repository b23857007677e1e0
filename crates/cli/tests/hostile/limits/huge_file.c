// tries: write one file larger than allowed
// flags: --file-size 4 --total-size 64
// expect: limit fileSize
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    static char block[1 << 20];
    char name[512];
    snprintf(name, sizeof name, "%s/huge", fact("out", "/out"));
    int file = open(name, O_CREAT | O_WRONLY, 0644);
    for (int written = 0; written < 32; written++)
        if (write(file, block, sizeof block) < 0)
            return 1;
    puts("wrote 32 MiB");
    return 0;
}
