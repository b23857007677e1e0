// tries: leave a hundred thousand files among the outputs
// flags: --time 50
// expect: limit inodes or refused STAGING_REFUSED
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char name[32];
    if (chdir(fact("out", "/out")) < 0)
        return 1;
    for (int number = 0; number < 100000; number++) {
        snprintf(name, sizeof name, "file-%06d", number);
        int file = open(name, O_CREAT | O_WRONLY, 0644);
        if (file < 0) {
            perror(name);
            return 1;
        }
        close(file);
    }
    return 0;
}
