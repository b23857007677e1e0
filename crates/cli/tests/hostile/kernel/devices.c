// tries: make device nodes and open devices of the host
// expect: exit 0
// bare: escapes as root
#include "../probe.h"
#include <dirent.h>
#include <sys/sysmacros.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char path[512];
    const char *places[] = {"/tmp", fact("ws", "/workspace"), fact("out", "/out")};
    for (unsigned at = 0; at < sizeof places / sizeof *places; at++) {
        snprintf(path, sizeof path, "%s/node-c", places[at]);
        if (must_fail(path, mknod(path, S_IFCHR | 0666, makedev(1, 1))))
            unlink(path);
        snprintf(path, sizeof path, "%s/node-b", places[at]);
        if (must_fail(path, mknod(path, S_IFBLK | 0666, makedev(8, 0))))
            unlink(path);
    }
    // Everything in /dev beyond what a program needs.
    const char *fine = " null zero full random urandom tty ptmx stdin stdout stderr fd shm pts "
                       "mqueue core console . .. ";
    DIR *dev = opendir("/dev");
    for (struct dirent *entry; dev && (entry = readdir(dev));) {
        char wanted[300];
        snprintf(wanted, sizeof wanted, " %s ", entry->d_name);
        if (!strstr(fine, wanted))
            escaped("/dev/%s is there", entry->d_name);
    }
    return verdict();
}
