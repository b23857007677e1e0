// tries: random numbers from every source
// expect: exit 0
#include "../hostile/probe.h"
#include <sys/random.h>

int main(void) {
    char bytes[32];
    printf("%ld %d\n", (long)getrandom(bytes, sizeof bytes, 0), getentropy(bytes, sizeof bytes));
    const char *sources[] = {"/dev/random", "/dev/urandom"};
    for (int at = 0; at < 2; at++) {
        int source = open(sources[at], O_RDONLY);
        printf("%ld\n", (long)read(source, bytes, sizeof bytes));
    }
    return 0;
}
