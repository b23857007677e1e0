// tries: run a program that is in no file, to come out without the filter
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <sys/mman.h>

extern char **environ;

int main(int argc, char **argv) {
    begin(argv);
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        // It runs, but as what?
        if (!status_is("Seccomp", "2") || !status_is("NoNewPrivs", "1"))
            escaped("it runs without the filter");
        return verdict();
    }
    char block[65536], path[64];
    long length;
    int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("program", 0);
    while (to >= 0 && (length = read(from, block, sizeof block)) > 0)
        if (write(to, block, length) < 0)
            break;
    char *arguments[] = {argv[0], "again", NULL};
    fflush(stdout);
    syscall(SYS_execveat, to, "", arguments, environ, AT_EMPTY_PATH);
    contained("execveat: %s", strerror(errno));
    snprintf(path, sizeof path, "/proc/self/fd/%d", to);
    execve(path, arguments, environ);
    contained("execve of %s: %s", path, strerror(errno));
    return verdict();
}
