// tries: show itself other directories by binding them
// expect: exit 0
#include "../probe.h"
#include <sys/mount.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    only_in_a_box();
    const char *places[] = {"/", "/usr", "/proc", "/dev", "/proc/1/root", "/tool"};
    for (unsigned at = 0; at < sizeof places / sizeof *places; at++) {
        must_fail(places[at], mount(places[at], "/tmp", NULL, MS_BIND, NULL));
        must_fail(places[at], mount(places[at], "/tmp", NULL, MS_BIND | MS_REC, NULL));
        must_fail(places[at], mount(places[at], "/tmp", NULL, MS_MOVE, NULL));
    }
    return verdict();
}
