// tries: watch every file of a file system
// expect: exit 0
// bare: escapes as root
#include "../probe.h"
#include <sys/fanotify.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_be_refused("fanotify_init", fanotify_init(FAN_CLASS_CONTENT, O_RDONLY));
    return verdict();
}
