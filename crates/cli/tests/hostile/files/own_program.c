// tries: change its own program through /proc/self/exe, once it no longer runs
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_fail("/proc/self/exe for writing", open("/proc/self/exe", O_WRONLY));
    int program = open("/proc/self/exe", O_RDONLY);
    if (dup2(program, 8) < 0)
        return 1;
    // Opened without cutting it off, so that nothing is lost where it succeeds.
    execl("/bin/sh", "sh", "-c",
          "if (: 9<>/proc/self/fd/8) 2>/dev/null; then echo ESCAPED; exit 42; fi; echo CONTAINED",
          (char *)NULL);
    return 1;
}
