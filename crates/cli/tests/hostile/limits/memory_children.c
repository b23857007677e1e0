// tries: take memory in many children, each below the limit
// flags: --memory 64 --pids 64
// expect: limit memory
#include "../probe.h"
#include <sys/mman.h>

int main(void) {
    size_t share = 8 << 20;
    for (int number = 0; number < 32; number++) {
        if (fork() == 0) {
            char *block = mmap(NULL, share, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (block != MAP_FAILED)
                memset(block, number + 1, share);
            for (;;)
                pause();
        }
    }
    for (;;)
        pause();
}
