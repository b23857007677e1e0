// tries: climb out of a directory that is moved while it stands in it
// expect: exit 0
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    char deep[512], away[512];
    const char *ws = fact("ws", "/workspace");
    snprintf(deep, sizeof deep, "%s/one", ws);
    mkdir(deep, 0755);
    snprintf(deep, sizeof deep, "%s/one/two", ws);
    mkdir(deep, 0755);
    if (chdir(deep) < 0)
        return 1;
    snprintf(away, sizeof away, "%s/two", ws);
    if (rename(deep, away) < 0)
        contained("rename: %s", strerror(errno));
    for (int step = 0; step < 64; step++)
        if (chdir("..") < 0)
            break;
    struct stat here, root;
    if (stat(".", &here) == 0 && stat("/", &root) == 0 &&
        (here.st_ino != root.st_ino || here.st_dev != root.st_dev))
        escaped("above the root");
    // Leaves nothing.
    rmdir(away);
    rmdir(deep);
    snprintf(deep, sizeof deep, "%s/one", ws);
    rmdir(deep);
    return verdict();
}
