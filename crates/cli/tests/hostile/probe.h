// What the hostile programs share: they say what happened, and end with 42 when they got out.
#ifndef PROBE_H
#define PROBE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define ESCAPED 42

static int escapes;
static char **facts;

static inline void begin(char **argv) {
    facts = argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
}

// What the harness said about the host, given as `name=value`.
static inline const char *fact(const char *name, const char *otherwise) {
    size_t length = strlen(name);
    for (char **at = facts; at && *at; at++)
        if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
            return *at + length + 1;
    return otherwise;
}

static inline void escaped(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("ESCAPED: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    escapes++;
}

static inline void contained(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("contained: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

// The call may not succeed; why it failed does not matter.
static inline int must_fail(const char *what, long result) {
    if (result >= 0) {
        escaped("%s succeeded", what);
        return 1;
    }
    contained("%s: %s", what, strerror(errno));
    return 0;
}

// Only a refusal counts. Any other error means that the kernel was already at work on the request,
// so arguments that can do no harm are enough to find out.
static inline int must_be_refused(const char *what, long result) {
    if (result < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS)) {
        contained("%s: %s", what, strerror(errno));
        return 0;
    }
    escaped("%s was not refused: %s", what, result < 0 ? strerror(errno) : "it succeeded");
    return 1;
}

// How a child that runs `body` ends: a filter may kill for a call instead of refusing it.
static inline int in_child(void (*body)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        body();
        fflush(stdout);
        _exit(escapes ? ESCAPED : 0);
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == ESCAPED)
        escapes++;
    return status;
}

// Whether a line of /proc/self/status is exactly so, as in status_is("Seccomp", "2").
static inline int status_is(const char *name, const char *value) {
    char line[256], wanted[256];
    int found = 0;
    snprintf(wanted, sizeof wanted, "%s:\t%s\n", name, value);
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        found |= strcmp(line, wanted) == 0;
    if (status)
        fclose(status);
    return found;
}

// For what would do harm outside: where a process of the host can be seen there is no box.
static inline void only_in_a_box(void) {
    int host = atoi(fact("hostpid", "0"));
    if (host <= 1 || kill(host, 0) == 0 || errno == EPERM) {
        puts("ESCAPED: this is the host, or cannot be told from it");
        exit(ESCAPED);
    }
}

static inline int verdict(void) {
    puts(escapes ? "ESCAPED" : "CONTAINED");
    fflush(stdout);
    return escapes ? ESCAPED : 0;
}

#endif
