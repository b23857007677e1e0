// tries: change the program of the box itself, as in CVE-2019-5736
// expect: exit 0
#include "../probe.h"
#include <dirent.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        int process = atoi(entry->d_name);
        if (process <= 0 || process == getpid())
            continue;
        char path[64], again[64];
        snprintf(path, sizeof path, "/proc/%d/exe", process);
        must_fail(path, open(path, O_WRONLY));
        int program = open(path, O_PATH);
        if (program < 0)
            continue;
        snprintf(again, sizeof again, "/proc/self/fd/%d", program);
        must_fail(again, open(again, O_WRONLY));
        // Busy is no refusal: it ends when the program does.
        if (errno == ETXTBSY && faccessat(AT_FDCWD, again, W_OK, 0) == 0)
            escaped("%s can be written once it has ended", path);
    }
    return verdict();
}
