// tries: have more threads at once than allowed, politely
// flags: --threads 24 --pids 200
// expect: exit 0 or limit threads
#include "../probe.h"
#include <pthread.h>

static void *linger(void *nothing) {
    for (;;)
        pause();
    return nothing;
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    int alive = 1;
    pthread_t thread;
    while (alive < 400 && pthread_create(&thread, &small, linger, NULL) == 0)
        alive++;
    // The limit of processes may stand in for that of threads, where the kernel counts both alike.
    if (alive > 200)
        escaped("%d threads at once", alive);
    else
        contained("%d threads", alive);
    return verdict();
}
