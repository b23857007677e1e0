// tries: leave the root by the old trick: chroot below, then climb
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char directory[] = "/tmp/chroot-XXXXXX";
    if (!mkdtemp(directory))
        return 1;
    if (must_fail("chroot", chroot(directory))) {
        for (int step = 0; step < 64; step++)
            if (chdir("..") < 0)
                break;
        must_fail("chroot to what is above", chroot("."));
    }
    rmdir(directory);
    must_fail("chroot to the root of the first process", chroot("/proc/1/root"));
    return verdict();
}
