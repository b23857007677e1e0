// tries: what event loops are made of: epoll, eventfd, timerfd, signalfd, pipes, poll and select
// expect: exit 0
#include "../hostile/probe.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int pair[2];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return 1;
    int sources[] = {eventfd(1, EFD_CLOEXEC), timerfd_create(CLOCK_MONOTONIC, 0),
                     signalfd(-1, &set, 0), pair[0]};
    struct itimerspec soon = {.it_value = {0, 1000000}};
    timerfd_settime(sources[1], 0, &soon, NULL);
    raise(SIGUSR1);
    if (write(pair[1], "x", 1) < 1)
        return 1;
    int loop = epoll_create1(EPOLL_CLOEXEC), ready = 0;
    for (int at = 0; at < 4; at++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = at};
        printf("%d\n", epoll_ctl(loop, EPOLL_CTL_ADD, sources[at], &event));
    }
    while (ready != 15) {
        struct epoll_event event;
        if (epoll_wait(loop, &event, 1, -1) == 1)
            ready |= 1 << event.data.fd;
    }
    struct pollfd poller = {.fd = pair[0], .events = POLLIN};
    fd_set reading;
    FD_ZERO(&reading);
    FD_SET(pair[0], &reading);
    printf("%d %d\n", poll(&poller, 1, -1), select(pair[0] + 1, &reading, NULL, NULL, NULL));
    return 0;
}
