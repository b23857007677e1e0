// tries: leave System V shared memory segments behind
// flags: --memory 64
// expect: limit memory or exit 0
#include "../probe.h"
#include <sys/shm.h>

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    size_t step = 4 << 20;
    for (int taken = 0; taken < 256; taken += 4) {
        int segment = shmget(IPC_PRIVATE, step, IPC_CREAT | 0600);
        char *block = segment < 0 ? (char *)-1 : shmat(segment, NULL, 0);
        if (block == (char *)-1) {
            contained("after %d MiB: %s", taken, strerror(errno));
            if (taken > 64)
                escaped("more than the limit");
            return verdict();
        }
        memset(block, 1, step);
        shmdt(block);
    }
    escaped("256 MiB of segments");
    return verdict();
}
