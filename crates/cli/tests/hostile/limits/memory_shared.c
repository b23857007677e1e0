// tries: take shared memory, which counts for no single process
// flags: --memory 64 --pids 64
// expect: limit memory
#include "../probe.h"
#include <sys/mman.h>

int main(void) {
    size_t step = 4 << 20;
    for (;;) {
        char *block = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        // Refused outright: the same bytes as private memory, so that the limit is still met.
        if (block == MAP_FAILED)
            block = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            continue;
        memset(block, 1, step);
        // Without a mapping the pages live on in a child alone.
        if (fork() == 0)
            for (;;)
                pause();
        munmap(block, step);
    }
}
