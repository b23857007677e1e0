// tries: open files of the host by handle, which knows no root (the escape named shocker)
// expect: exit 0
// bare: escapes
#include "../probe.h"

int main(int argc, char **argv) {
    (void)argc;
    begin(argv);
    struct {
        struct file_handle handle;
        unsigned char bytes[128];
    } guess = {.handle = {.handle_bytes = 128}};
    int mount;
    must_be_refused("name_to_handle_at",
                    name_to_handle_at(AT_FDCWD, "/usr", &guess.handle, &mount, 0));
    // The root directory of most file systems has inode 2.
    uint32_t root[2] = {2, 0};
    guess.handle.handle_bytes = 8;
    guess.handle.handle_type = 1;
    memcpy(guess.handle.f_handle, root, sizeof root);
    const char *places[] = {"/", "/usr", "/workspace", "/out", "/tool", "/tmp"};
    for (unsigned at = 0; at < sizeof places / sizeof *places; at++) {
        int place = open(places[at], O_RDONLY | O_DIRECTORY);
        if (place >= 0)
            must_be_refused(places[at], open_by_handle_at(place, &guess.handle, O_RDONLY));
    }
    return verdict();
}
