# tries: to read files of the host
# run: 0
# exit_code: 0
# notes: None observed
# shows: quokka contained
import os

home = open("/in/host.txt").readline().strip()
for path in [home, home + "/state", home + "/countersign.toml", os.path.dirname(home), "/var/log/dpkg.log",
             "/etc/shadow", "/proc/1/root" + home, "/var/lib/dpkg/status"]:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path).read()
        print("escaped: quokka", path)
        raise SystemExit(42)
    except OSError:
        pass
seen = set(os.listdir("/"))
if not seen <= {"bin", "dev", "etc", "in", "lib", "lib32", "lib64", "libx32", "out", "proc", "sbin",
                "tmp", "tool", "usr", "work" + "space", "run", "var", "opt"}:
    print("escaped: quokka", seen)
    raise SystemExit(42)
print("quokka contained")
