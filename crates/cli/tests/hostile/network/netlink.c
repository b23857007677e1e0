// tries: speak to the kernel over netlink, a large part of it to attack
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <sys/socket.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    // Routes, sockets, packet filter, IPsec, audit, kernel objects and generic.
    int families[] = {0, 4, 12, 6, 9, 15, 16};
    for (unsigned at = 0; at < sizeof families / sizeof *families; at++) {
        char what[32];
        snprintf(what, sizeof what, "netlink %d", families[at]);
        must_fail(what, socket(AF_NETLINK, SOCK_RAW, families[at]));
    }
    return verdict();
}
