// tries: flood standard output
// flags: --output-bytes 65536
// expect: limit output
#include "../probe.h"

int main(void) {
    for (;;)
        puts("all work and no play makes a dull tool");
}
