// tries: leave a path that is too long to be named, and so hard to publish or remove
// expect: exit 0 or refused STAGING_REFUSED or limit inodes
// diff: out ?d/**
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    if (chdir(fact("out", "/out")) < 0 || mkdir("d", 0755) < 0 || chdir("d") < 0)
        return 1;
    char name[201];
    memset(name, 'd', 200);
    name[200] = 0;
    for (int depth = 0; depth < 100; depth++)
        if (mkdir(name, 0755) < 0 || chdir(name) < 0) {
            perror("mkdir");
            break;
        }
    close(open("bottom", O_CREAT | O_WRONLY, 0644));
    return 0;
}
