// tries: leave devices among the outputs, also the one that overlays take for a deleted file
// expect: exit 0 or refused STAGING_REFUSED
#include "../probe.h"
#include <sys/sysmacros.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    if (chdir(fact("out", "/out")) < 0)
        return 1;
    must_fail("the memory", mknod("memory", S_IFCHR | 0666, makedev(1, 1)));
    must_fail("a disk", mknod("disk", S_IFBLK | 0666, makedev(8, 0)));
    // This one may be made by anybody; the harness sees whether it is published.
    if (mknod("whiteout", S_IFCHR | 0666, makedev(0, 0)) == 0)
        puts("a whiteout was made");
    return verdict();
}
