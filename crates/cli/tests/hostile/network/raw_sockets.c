// tries: send packets made by hand
// expect: exit 0
// bare: escapes as root
#include "../probe.h"
#include <netinet/in.h>
#include <sys/socket.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_fail("raw ICMP", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
    must_fail("raw IP", socket(AF_INET, SOCK_RAW, IPPROTO_RAW));
    must_fail("raw IPv6", socket(AF_INET6, SOCK_RAW, IPPROTO_RAW));
    must_fail("packets", socket(AF_PACKET, SOCK_RAW, 0));
    must_fail("packets without headers", socket(AF_PACKET, SOCK_DGRAM, 0));
    return verdict();
}
