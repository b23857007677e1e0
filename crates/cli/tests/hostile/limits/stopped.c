// tries: stop itself, so that no signal but KILL reaches it
// flags: --time 1
// expect: limit wallTime
#include "../probe.h"

int main(void) {
    for (;;)
        raise(SIGSTOP);
}
