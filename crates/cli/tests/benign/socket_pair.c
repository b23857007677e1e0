// tries: sockets between its own processes, with a descriptor passed
// expect: exit 0
#include "../hostile/probe.h"
#include <sys/socket.h>
#include <sys/un.h>

int main(void) {
    int pair[2];
    char word[16] = "";
    printf("%d\n", socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    if (fork() == 0) {
        if (write(pair[1], "hello", 5) < 5)
            _exit(1);
        _exit(0);
    }
    long length = read(pair[0], word, sizeof word);
    wait(NULL);
    printf("%ld %s\n", length, word);
    struct sockaddr_un here = {.sun_family = AF_UNIX, .sun_path = "/tmp/socket"};
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    printf("%d\n", bind(server, (struct sockaddr *)&here, sizeof here));
    printf("%d\n", listen(server, 1));
    printf("%d\n", connect(client, (struct sockaddr *)&here, sizeof here));
    printf("%d\n", accept(server, NULL, NULL) >= 0);
    return 0;
}
