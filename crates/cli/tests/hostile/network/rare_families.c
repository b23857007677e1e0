// tries: every kind of socket that no tool needs, each a part of the kernel few have looked at
// expect: exit 0
#include "../probe.h"
#include <sys/socket.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_RDM};
    for (int family = 3; family < 64; family++) {
        if (family == AF_INET6)
            continue;
        for (unsigned type = 0; type < sizeof types / sizeof *types; type++)
            if (socket(family, types[type], 0) >= 0)
                escaped("family %d, type %d", family, types[type]);
    }
    return verdict();
}
