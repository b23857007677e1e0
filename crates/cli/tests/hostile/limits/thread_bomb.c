// tries: start threads without end
// flags: --threads 24 --pids 200 --time 20
// expect: limit threads
#include "../probe.h"
#include <pthread.h>

static void *linger(void *nothing) {
    for (;;)
        pause();
    return nothing;
}

int main(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (;;) {
        pthread_t thread;
        pthread_create(&thread, &small, linger, NULL);
    }
}
