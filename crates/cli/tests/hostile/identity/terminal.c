// tries: type into the operator's terminal, or paste from it
// expect: exit 0
// bare: escapes
// wants: terminal
#include "../probe.h"
#include <sys/ioctl.h>
#include <termios.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    const char *terminals[] = {"/dev/tty", "/dev/console", "/dev/tty1", "/dev/pts/0", "/dev/pts/1"};
    int count = sizeof terminals / sizeof *terminals;
    for (int at = -3; at < count; at++) {
        int terminal = at < 0 ? at + 3 : open(terminals[at], O_RDWR | O_NOCTTY);
        if (terminal < 0) {
            contained("%s: %s", terminals[at], strerror(errno));
            continue;
        }
        char name[32];
        snprintf(name, sizeof name, "descriptor %d", terminal);
        if (at >= 0 || isatty(terminal))
            escaped("%s is a terminal", at < 0 ? name : terminals[at]);
        // A space typed, in the largest number of bits as well: only the lower ones are looked at.
        must_fail(name, ioctl(terminal, TIOCSTI, " "));
        must_fail(name, syscall(SYS_ioctl, terminal, 0xffffffff00000000ul | TIOCSTI, " "));
        char paste = 3;
        must_fail(name, ioctl(terminal, TIOCLINUX, &paste));
        must_fail(name, ioctl(terminal, TIOCSCTTY, 0));
    }
    return verdict();
}
