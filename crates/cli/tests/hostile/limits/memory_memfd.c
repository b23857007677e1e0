// tries: hide memory in files without a name
// flags: --memory 64
// expect: limit memory
#include "../probe.h"
#include <sys/mman.h>

int main(void) {
    static char block[1 << 20];
    memset(block, 1, sizeof block);
    int file = -1;
    for (unsigned long written = 0;; written++) {
        if (written % 4 == 0)
            file = memfd_create("hoard", 0);
        if (write(file, block, sizeof block) < 0 && file < 0) {
            // Refused outright: the same bytes as ordinary memory, so that the limit is still met.
            char *ordinary = mmap(NULL, sizeof block, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (ordinary != MAP_FAILED)
                memset(ordinary, 1, sizeof block);
        }
    }
}
