// tries: name files that are not its own from a place where it may write
// expect: exit 0
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    const char *files[] = {"/etc/passwd", "/usr/bin/id", "/bin/sh", "/tool/probe.sh", "/proc/self/exe"};
    const char *places[] = {"/tmp", fact("ws", "/workspace"), fact("out", "/out")};
    char name[512], descriptor[64];
    for (unsigned place = 0; place < 3; place++) {
        snprintf(name, sizeof name, "%s/linked", places[place]);
        for (unsigned at = 0; at < sizeof files / sizeof *files; at++) {
            if (must_fail(files[at], linkat(AT_FDCWD, files[at], AT_FDCWD, name, AT_SYMLINK_FOLLOW)))
                unlink(name);
            int file = open(files[at], O_RDONLY);
            snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", file);
            if (must_fail(descriptor,
                          linkat(AT_FDCWD, descriptor, AT_FDCWD, name, AT_SYMLINK_FOLLOW)))
                unlink(name);
            if (must_fail("by descriptor alone", linkat(file, "", AT_FDCWD, name, AT_EMPTY_PATH)))
                unlink(name);
            close(file);
        }
    }
    return verdict();
}
