// tries: raise its own limits and those of others
// expect: exit 0
#include "../probe.h"
#include <sys/resource.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    for (int kind = 0; kind < RLIM_NLIMITS; kind++) {
        struct rlimit now, more = {RLIM_INFINITY, RLIM_INFINITY};
        if (getrlimit(kind, &now) < 0 || now.rlim_max == RLIM_INFINITY)
            continue;
        char what[32];
        snprintf(what, sizeof what, "limit %d", kind);
        must_fail(what, setrlimit(kind, &more));
        must_fail(what, prlimit(0, kind, &more, NULL));
        more.rlim_cur = more.rlim_max = now.rlim_max + 1;
        must_fail(what, prlimit(getpid(), kind, &more, NULL));
    }
    struct rlimit none = {0, 0};
    if (getpid() != 1)
        must_fail("the limits of the first process", prlimit(1, RLIMIT_NOFILE, &none, NULL));
    return verdict();
}
