# tries: to write anywhere but below /out
# run: 0
# exit_code: 0
# notes: None observed
# shows: quokka contained
import os

places = ["/in", "/tool", "/etc", "/workspace", "/usr/bin", "/proc/sys/kernel", "/sys", "/"]
for place in places:
    for path in [place + "/quokka", place + "/main.py", place + "/../in/quokka"]:
        for flags in [os.O_CREAT | os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_RDWR]:
            try:
                os.open(path, flags)
                print("escaped: quokka", path)
                raise SystemExit(42)
            except OSError:
                pass
for what in [lambda: os.remove("/in/main.py"), lambda: os.rename("/in/main.py", "/in/x.py"),
             lambda: os.chmod("/in/main.py", 0o777), lambda: os.mkdir("/in/quokka")]:
    try:
        what()
        raise SystemExit(42)
    except OSError:
        pass
print("quokka contained")
