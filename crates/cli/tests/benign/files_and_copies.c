// tries: the calls that copy, place and describe files
// expect: exit 0
#include "../hostile/probe.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

int main(void) {
    int from = open("/tmp/from", O_CREAT | O_RDWR, 0600), to = open("/tmp/to", O_CREAT | O_RDWR, 0600);
    printf("%d\n", fallocate(from, 0, 0, 100000));
    printf("%ld\n", (long)sendfile(to, from, NULL, 50000));
    off64_t start = 0, end = 50000;
    printf("%ld\n", (long)copy_file_range(from, &start, to, &end, 50000, 0));
    struct statx now;
    printf("%d\n", statx(AT_FDCWD, "/tmp/to", 0, STATX_SIZE, &now));
    printf("%lld\n", (long long)now.stx_size);
    printf("%d\n", renameat2(AT_FDCWD, "/tmp/from", AT_FDCWD, "/tmp/to", RENAME_EXCHANGE));
    // Absent where no control group counts memory; programs then use ordinary files.
    int memory = memfd_create("memory", MFD_CLOEXEC);
    if (memory < 0 && errno == ENOSYS)
        memory = open("/tmp/memory", O_RDWR | O_CREAT, 0600);
    printf("%d %d\n", memory >= 0, ftruncate(memory, 4096));
    struct timespec times[2] = {{1, 0}, {2, 0}};
    printf("%d %d\n", futimens(to, times), fdatasync(to));
    printf("%d\n", unlinkat(AT_FDCWD, "/tmp/from", 0));
    return 0;
}
