// tries: pretend to be root from a preloaded library
// build: library
#include <sys/types.h>

uid_t getuid(void) { return 0; }
uid_t geteuid(void) { return 0; }
