// tries: switch off the randomisation of addresses
// expect: exit 0
// bare: escapes
#include "../probe.h"
#include <sys/personality.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    must_fail("ADDR_NO_RANDOMIZE", personality(ADDR_NO_RANDOMIZE));
    must_fail("READ_IMPLIES_EXEC", personality(READ_IMPLIES_EXEC));
    must_fail("UNAME26", personality(UNAME26));
    return verdict();
}
