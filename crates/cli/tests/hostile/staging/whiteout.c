// tries: delete files of the workspace by making whiteouts of its own
// expect: exit 0 or refused STAGING_REFUSED
#include "../probe.h"
#include <sys/sysmacros.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    if (chdir(fact("ws", "/workspace")) < 0)
        return 1;
    if (mknod("whiteout", S_IFCHR | 0666, makedev(0, 0)) == 0)
        puts("a whiteout was made");
    if (mknod("dir/.wh.inner.txt", S_IFCHR | 0666, makedev(0, 0)) == 0)
        puts("another was made");
    return verdict();
}
