// tries: make the host wait for ever by holding the pipes open after the parent is gone
// expect: exit 0
#include "../probe.h"

int main(void) {
    for (int number = 0; number < 4; number++) {
        if (fork() == 0) {
            setsid();
            signal(SIGTERM, SIG_IGN);
            signal(SIGHUP, SIG_IGN);
            for (;;)
                pause();
        }
    }
    puts("bye");
    return 0;
}
