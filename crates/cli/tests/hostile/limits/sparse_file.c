// tries: leave a file of one tebibyte that takes no space
// flags: --file-size 8
// expect: limit fileSize
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char name[512];
    snprintf(name, sizeof name, "%s/sparse", fact("out", "/out"));
    int file = open(name, O_CREAT | O_WRONLY, 0644);
    if (ftruncate(file, (off_t)1 << 40) < 0) {
        perror("ftruncate");
        return 1;
    }
    puts("one tebibyte");
    return 0;
}
