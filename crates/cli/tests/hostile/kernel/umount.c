// tries: take mounts away to see what is beneath
// expect: exit 0
#include "../probe.h"
#include <sys/mount.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    only_in_a_box();
    const char *places[] = {"/",    "/usr", "/proc",      "/dev", "/dev/null",
                            "/tmp", "/out", "/workspace", "/tool"};
    for (unsigned at = 0; at < sizeof places / sizeof *places; at++) {
        must_fail(places[at], umount2(places[at], 0));
        must_fail(places[at], umount2(places[at], MNT_DETACH));
        must_fail(places[at], umount2(places[at], MNT_FORCE));
    }
    return verdict();
}
