// tries: hold more descriptors than allowed, by numbers, copies and messages in flight
// flags: --files 64
// expect: exit 0 or limit openFiles
#include "../probe.h"
#include <sys/socket.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    if (dup2(1, 4000) >= 0)
        escaped("descriptor 4000");
    int held = 3;
    while (held < 512 && dup(1) >= 0)
        held++;
    if (held > 65)
        escaped("%d descriptors", held);
    else
        contained("%d descriptors: %s", held, strerror(errno));
    return verdict();
}
