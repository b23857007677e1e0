// tries: leave a daemon that keeps writing to the workspace while it is published
// expect: exit 0
// diff: workspace +tick ?tock
#include "../probe.h"
#include <sys/mman.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char tick[512], tock[512];
    int ready[2];
    snprintf(tick, sizeof tick, "%s/tick", fact("ws", "/workspace"));
    snprintf(tock, sizeof tock, "%s/tock", fact("ws", "/workspace"));
    if (pipe(ready) < 0)
        return 1;
    if (fork() == 0) {
        setsid();
        if (fork() > 0)
            _exit(0);
        for (int number = 0; number < 256; number++)
            signal(number, SIG_IGN);
        int file = open(tick, O_CREAT | O_RDWR, 0644);
        if (ftruncate(file, 4096) < 0)
            _exit(1);
        volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (write(ready[1], "r", 1) < 1)
            _exit(1);
        for (;;) {
            if (page != MAP_FAILED)
                page[0]++;
            close(open(tock, O_CREAT | O_WRONLY | O_APPEND, 0644));
            unlink(tock);
        }
    }
    char byte;
    return read(ready[0], &byte, 1) == 1 ? 0 : 1;
}
