// tries: see by its files what else runs on the machine
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <sys/inotify.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    int watcher = inotify_init1(IN_CLOEXEC);
    must_be_refused("inotify_init1", watcher);
    if (watcher >= 0) {
        must_be_refused("watch of /usr/bin", inotify_add_watch(watcher, "/usr/bin", IN_OPEN));
    }
    return verdict();
}
