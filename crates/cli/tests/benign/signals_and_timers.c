// tries: signal handlers, waiting for signals, timers of all kinds
// expect: exit 0
#include "../hostile/probe.h"
#include <sys/time.h>
#include <time.h>

static volatile int seen;

static void handle(int number, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    seen += number;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    struct itimerval soon = {.it_value = {0, 1000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    while (!seen)
        usleep(1000);
    printf("%d\n", seen == SIGALRM);
    raise(SIGUSR2);
    printf("%d\n", seen == SIGALRM + SIGUSR2);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec once = {.it_value = {0, 1000000}};
    printf("%d\n", timer_create(CLOCK_MONOTONIC, &event, &timer));
    timer_settime(timer, 0, &once, NULL);
    printf("%d\n", sigwaitinfo(&set, NULL) == SIGRTMIN);
    struct timespec nap = {0, 1000000};
    printf("%d\n", clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL));
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    printf("%d\n", sigaltstack(&stack, NULL));
    return 0;
}
