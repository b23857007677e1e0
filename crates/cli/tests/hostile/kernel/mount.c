// tries: mount something of its own
// expect: exit 0
// bare: escapes as root
#include "../probe.h"
#include <sys/mount.h>

static void try(const char *type, const char *to) {
    if (must_fail(type, mount("none", to, type, 0, NULL)))
        umount2(to, MNT_DETACH);
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char directory[] = "/tmp/mount-XXXXXX";
    if (!mkdtemp(directory))
        return 1;
    try("tmpfs", directory);
    try("proc", directory);
    try("sysfs", directory);
    try("overlay", directory);
    rmdir(directory);
    return verdict();
}
