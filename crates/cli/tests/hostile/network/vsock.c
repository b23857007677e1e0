// tries: reach the machine beneath a virtual machine
// expect: exit 0
#include "../probe.h"
#include <sys/socket.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_fail("vsock", socket(40, SOCK_STREAM, 0));
    must_fail("vsock datagrams", socket(40, SOCK_DGRAM, 0));
    must_fail("/dev/vsock", open("/dev/vsock", O_RDONLY));
    must_fail("/dev/vhost-vsock", open("/dev/vhost-vsock", O_RDONLY));
    return verdict();
}
