# tries: climb out by .. from every place it holds, to a file of the host
# expect: exit 0
# bare: escapes
import os

from probe import contained, escaped, fact, finish

goal = os.path.join(fact("canary", "/nowhere"), "secret.txt").lstrip("/")
up = "../" * 40
starts = [fact("ws", "/workspace"), fact("out", "/out"), fact("tool", "/tool"), "/tmp", "/proc", "/dev"]
starts += ["/proc/self/root", "/proc/self/cwd", "/proc/1/root", "/proc/1/cwd", "/proc/thread-self/root"]
for start in starts:
    for path in (f"{start}/{up}{goal}", f"{start}/{goal}"):
        if os.path.exists(path):
            escaped(path)
    try:
        directory = os.open(start, os.O_RDONLY)
    except OSError as error:
        contained(f"{start}: {error}")
        continue
    for _ in range(40):
        above = os.open("..", os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = above
        try:
            os.close(os.open(goal, os.O_RDONLY, dir_fd=directory))
            escaped(f"{goal} above {start}")
            break
        except OSError:
            pass
    os.close(directory)
finish()
