// tries: load ciphers into the kernel through AF_ALG
// expect: exit 0
#include "../probe.h"
#include <sys/socket.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_fail("AF_ALG", socket(AF_ALG, SOCK_SEQPACKET, 0));
    return verdict();
}
