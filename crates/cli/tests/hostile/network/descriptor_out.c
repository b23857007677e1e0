// tries: pass a descriptor out, over every descriptor it was given and every socket it can reach
// expect: exit 0 or refused STAGING_REFUSED
// bare: escapes
// wants: socket
#include "../probe.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static long pass(int through) {
    char byte = 'd', space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    int root = open("/", O_RDONLY | O_DIRECTORY);
    memcpy(CMSG_DATA(header), &root, sizeof root);
    long sent = sendmsg(through, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(root);
    return sent;
}

static void reach(const char *what, const struct sockaddr_un *to, socklen_t length) {
    int through = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(through, (const struct sockaddr *)to, length) < 0)
        contained("%s: %s", what, strerror(errno));
    else
        must_fail(what, pass(through));
    close(through);
}

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    for (int descriptor = 0; descriptor < 1024; descriptor++)
        if (pass(descriptor) >= 0)
            escaped("over descriptor %d", descriptor);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *name = fact("abstract", "");
    memcpy(to.sun_path + 1, name, strlen(name));
    reach("the abstract socket", &to, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    if (chdir(fact("ws", "/workspace")) == 0) {
        strcpy(to.sun_path, "host.sock");
        reach("the socket in the workspace", &to, sizeof to);
    }
    return verdict();
}
