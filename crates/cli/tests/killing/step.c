/* One step of a workspace: from state n, whose number stands in `counter`, to state n + 1. What a
 * state looks like is said once more, independently, in model.rs. On the way it naps, starts children
 * that nobody waits for, and fails when it is told to, always after having changed everything. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char input[4096];

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(9);
}

static long number(const char *name) {
    char *found = strstr(input, name);
    return found ? strtol(found + strlen(name), NULL, 10) : 0;
}

static void save(const char *path, int mode, long value, long lines) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) fail(path);
    FILE *file = fdopen(fd, "w");
    for (long line = 0; line < lines; line++) fprintf(file, "%ld\n", value);
    if (fflush(file) || fchmod(fd, mode) || fclose(file)) fail(path);
}

/* A child of a child in a session of its own, deaf to the polite signal, that holds our streams. */
static void abandon(long number) {
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child) return;
    setsid();
    if (fork()) _exit(0);
    signal(SIGTERM, SIG_IGN);
    char path[64];
    snprintf(path, sizeof path, "/tmp/noise-%ld", number);
    for (;;) {
        FILE *noise = fopen(path, "a");
        if (noise) {
            fputs("noise\n", noise);
            fclose(noise);
        }
        usleep(2000);
    }
}

int main(void) {
    size_t length = fread(input, 1, sizeof input - 1, stdin);
    input[length] = 0;
    long nap = number("\"nap\":"), kids = number("\"kids\":"), n = 0;
    umask(0);
    FILE *counter = fopen("counter", "r");
    if (!counter || fscanf(counter, "%ld", &n) != 1) fail("counter");
    fclose(counter);
    for (long kid = 0; kid < kids; kid++) abandon(kid);
    usleep(nap * 300);
    long next = n + 1, lines = next * 37 % 400 + 1;
    int modes[] = {0644, 0600, 0755};
    char path[64];

    save("counter", 0644, next, 1);
    save("data.new", modes[next % 3], next, lines);
    if (rename("data.new", "data")) fail("data");
    if (unlink("twin") || link("data", "twin")) fail("twin");
    snprintf(path, sizeof path, "recent/%ld", next);
    save(path, 0644, next, 1);
    if (unlink("latest") || symlink(path, "latest")) fail("latest");
    if (next >= 3) {
        snprintf(path, sizeof path, "recent/%ld", next - 3);
        if (unlink(path)) fail(path);
    }
    usleep(nap * 300);
    if (next % 2) {
        if (unlink("shape/inside") || rmdir("shape")) fail("shape");
        save("shape", 0644, next, 1);
    } else {
        if (unlink("shape") || mkdir("shape", 0755)) fail("shape");
        save("shape/inside", 0644, next, 1);
    }
    for (long file = 0; next % 5 == 0 && file < 40; file++) {
        snprintf(path, sizeof path, "many/%ld", file);
        save(path, 0644, next / 5, 1);
    }
    save("/out/report", 0644, next, lines);
    usleep(nap * 400);
    if (strstr(input, "\"fail\":true")) return 3;
    printf("{\"n\":%ld}\n", next);
    return 0;
}
