// tries: use descriptors that the caller forgot to close
// expect: exit 0
// bare: escapes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    for (int descriptor = 3; descriptor < 65536; descriptor++) {
        if (fcntl(descriptor, F_GETFD) < 0)
            continue;
        char path[64], target[256] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        if (readlink(path, target, sizeof target - 1) < 0)
            target[0] = 0;
        escaped("descriptor %d is open: %s", descriptor, target);
        if (openat(descriptor, "..", O_RDONLY | O_DIRECTORY) >= 0)
            escaped("and it leads up");
    }
    // Those it has may not lead to directories.
    for (int descriptor = 0; descriptor < 3; descriptor++)
        must_fail("a directory among the first three", fchdir(descriptor));
    return verdict();
}
