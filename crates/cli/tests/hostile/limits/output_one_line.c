// tries: one line without an end, with bytes that are no text
// flags: --output-bytes 65536
// expect: limit output
#include "../probe.h"

int main(void) {
    static char block[65536];
    memset(block, 0xff, sizeof block);
    for (;;)
        if (write(1, block, sizeof block) < 0 && errno != EINTR && errno != EPIPE)
            pause();
}
