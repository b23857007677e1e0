// tries: rename the machine and its domain (to the names they have)
// expect: exit 0
// bare: escapes as root
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char name[256] = "", domain[256] = "";
    gethostname(name, sizeof name - 1);
    if (getdomainname(domain, sizeof domain - 1) < 0)
        return 1;
    must_be_refused("sethostname", sethostname(name, strlen(name)));
    must_be_refused("setdomainname", setdomainname(domain, strlen(domain)));
    return verdict();
}
