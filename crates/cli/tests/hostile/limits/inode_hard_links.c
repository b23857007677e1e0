// tries: leave thousands of names for one file
// flags: --inodes 500
// expect: limit inodes or refused STAGING_REFUSED
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char first[512], name[512];
    snprintf(first, sizeof first, "%s/first", fact("out", "/out"));
    close(open(first, O_CREAT | O_WRONLY, 0644));
    for (int number = 0; number < 20000; number++) {
        snprintf(name, sizeof name, "%s/name-%d", fact("out", "/out"), number);
        if (link(first, name) < 0) {
            perror("link");
            return 1;
        }
    }
    puts("made 20000");
    return 0;
}
