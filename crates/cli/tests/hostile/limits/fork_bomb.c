// tries: the fork bomb
// flags: --pids 32 --time 20
// expect: limit processes
#include "../probe.h"

int main(void) {
    for (;;)
        fork();
}
