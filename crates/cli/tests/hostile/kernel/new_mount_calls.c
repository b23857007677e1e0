// tries: mount by the newer calls that old filters forget
// expect: exit 0
// bare: escapes
#include "../probe.h"

// Newer than some headers; the numbers are the same everywhere.
enum { OPEN_TREE = 428, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, FSPICK, MOUNT_SETATTR = 442 };

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    uint64_t attributes[4] = {0};
    must_be_refused("open_tree", syscall(OPEN_TREE, AT_FDCWD, "/", 0));
    must_be_refused("open_tree, cloned", syscall(OPEN_TREE, AT_FDCWD, "/", 1));
    must_be_refused("fsopen", syscall(FSOPEN, "tmpfs", 0));
    must_be_refused("fspick", syscall(FSPICK, AT_FDCWD, "/", 0));
    must_be_refused("fsmount", syscall(FSMOUNT, -1, 0, 0));
    must_be_refused("move_mount", syscall(MOVE_MOUNT, AT_FDCWD, "/nowhere", AT_FDCWD, "/nowhere", 0));
    must_be_refused("mount_setattr", syscall(MOUNT_SETATTR, AT_FDCWD, "/", 0, attributes,
                                             sizeof attributes));
    return verdict();
}
