// tries: write one file larger than allowed, deaf to the signal that says so
// flags: --file-size 4 --total-size 64
// expect: exit 0 or limit fileSize
// diff: out ?huge
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    signal(SIGXFSZ, SIG_IGN);
    static char block[1 << 20];
    char name[512];
    snprintf(name, sizeof name, "%s/huge", fact("out", "/out"));
    int file = open(name, O_CREAT | O_RDWR, 0644);
    for (int at = 0; at < 32; at++)
        if (pwrite(file, block, sizeof block, (off_t)at << 20) < 0)
            break;
    if (fallocate(file, 0, 0, 32 << 20) == 0 || ftruncate(file, 32 << 20) == 0)
        puts("grown without writing");
    struct stat now;
    if (fstat(file, &now) == 0 && now.st_size > 4 << 20)
        escaped("a file of %ld bytes", (long)now.st_size);
    return verdict();
}
