// tries: become root of a user namespace of its own, and use it
// expect: exit 0
// bare: escapes as root
#include "../probe.h"
#include <sys/mount.h>

static void alone(void) { must_fail("unshare user", unshare(CLONE_NEWUSER)); }

static void with_mounts(void) {
    if (must_fail("unshare user and mounts", unshare(CLONE_NEWUSER | CLONE_NEWNS)))
        must_fail("mount in it", mount("none", "/tmp", "tmpfs", 0, NULL));
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    in_child(alone);
    in_child(with_mounts);
    return verdict();
}
