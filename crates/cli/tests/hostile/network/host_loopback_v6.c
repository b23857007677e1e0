// tries: reach the loopback address of the host by IPv6, also mapped
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static void reach(const char *address, int port) {
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    inet_pton(AF_INET6, address, &to.sin6_addr);
    int socket6 = socket(AF_INET6, SOCK_STREAM, 0);
    must_fail(address, socket6 < 0 ? -1 : connect(socket6, (struct sockaddr *)&to, sizeof to));
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    reach("::1", atoi(fact("port6", "1")));
    reach("::ffff:127.0.0.1", atoi(fact("port", "1")));
    reach("::", atoi(fact("port6", "1")));
    return verdict();
}
