// tries: make a network device of its own
// expect: exit 0
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_fail("/dev/net/tun", open("/dev/net/tun", O_RDWR));
    must_fail("/dev/vhost-net", open("/dev/vhost-net", O_RDWR));
    must_fail("/dev/ppp", open("/dev/ppp", O_RDWR));
    must_fail("/dev/kvm", open("/dev/kvm", O_RDWR));
    must_fail("/dev/fuse", open("/dev/fuse", O_RDWR));
    return verdict();
}
