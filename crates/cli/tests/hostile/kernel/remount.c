// tries: make read-only places writable again
// expect: exit 0
#include "../probe.h"
#include <sys/mount.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    only_in_a_box();
    const char *places[] = {"/", "/usr", "/bin", "/lib", "/etc/passwd", "/tool", "/proc", "/dev"};
    for (unsigned at = 0; at < sizeof places / sizeof *places; at++) {
        must_fail(places[at], mount(NULL, places[at], NULL, MS_REMOUNT, NULL));
        must_fail(places[at], mount(NULL, places[at], NULL, MS_REMOUNT | MS_BIND, NULL));
        must_fail(places[at], mount(NULL, places[at], NULL, MS_SHARED | MS_REC, NULL));
    }
    return verdict();
}
