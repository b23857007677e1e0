// tries: take private memory without end
// flags: --memory 64
// expect: limit memory
#include "../probe.h"
#include <sys/mman.h>

int main(void) {
    size_t step = 4 << 20;
    for (;;) {
        char *block = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block != MAP_FAILED)
            memset(block, 1, step);
    }
}
