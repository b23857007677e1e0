// tries: park memory in the kernel, in the buffers of pipes and sockets
// flags: --memory 32 --files 1024
// expect: limit memory or limit openFiles or exit 0
#include "../probe.h"
#include <sys/socket.h>

// Fills one end without waiting and says how much it took.
static long fill(int end) {
    static char block[65536];
    long taken = 0, more;
    fcntl(end, F_SETFL, O_NONBLOCK);
    while ((more = write(end, block, sizeof block)) > 0)
        taken += more;
    return taken;
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    long taken = 0;
    int pair[2];
    while (pipe(pair) == 0) {
        fcntl(pair[1], F_SETPIPE_SZ, 1 << 20);
        taken += fill(pair[1]);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
            break;
        taken += fill(pair[0]) + fill(pair[1]);
    }
    contained("%ld MiB in buffers, then: %s", taken >> 20, strerror(errno));
    if (taken > (64L << 20))
        escaped("more than twice the limit");
    return verdict();
}
