// tries: threads, mutexes, conditions, shared mappings and memory protection
// expect: exit 0
#include "../hostile/probe.h"
#include <pthread.h>
#include <sys/mman.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all = PTHREAD_COND_INITIALIZER;
static long sum;
static int arrived;

static void *add(void *number) {
    pthread_mutex_lock(&mutex);
    sum += (long)number;
    arrived++;
    pthread_cond_broadcast(&all);
    while (arrived < 8)
        pthread_cond_wait(&all, &mutex);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void) {
    pthread_t threads[8];
    for (long at = 0; at < 8; at++)
        if (pthread_create(&threads[at], NULL, add, (void *)at))
            return 1;
    for (int at = 0; at < 8; at++)
        pthread_join(threads[at], NULL);
    int *shared = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fork() == 0) {
        shared[1000] = 42;
        _exit(0);
    }
    wait(NULL);
    printf("%ld %d\n", sum, shared[1000]);
    printf("%d %d\n", mprotect(shared, 4096, PROT_READ), madvise(shared, 1 << 20, MADV_DONTNEED));
    char *grown = mremap(shared, 1 << 20, 1 << 20, MREMAP_MAYMOVE);
    printf("%d\n", grown != MAP_FAILED && munmap(grown, 1 << 20) == 0);
    return 0;
}
