// tries: read the keys of the host and leave some
// expect: exit 0
// bare: escapes
#include "../probe.h"

enum { PROCESS = -2, SESSION = -3, USER = -4 };

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_be_refused("add_key", syscall(SYS_add_key, "user", "hostile", "x", 1, PROCESS));
    must_be_refused("request_key", syscall(SYS_request_key, "user", "hostile", NULL, 0));
    must_be_refused("keyctl: the session", syscall(SYS_keyctl, 0, SESSION, 0));
    must_be_refused("keyctl: the user", syscall(SYS_keyctl, 0, USER, 0));
    return verdict();
}
