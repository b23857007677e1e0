# tries: locks on files between processes, of all kinds
# expect: exit 0
import fcntl
import os

for name, lock in (("flock", fcntl.flock), ("lockf", fcntl.lockf)):
    with open("/workspace/lock", "w") as file:
        lock(file, fcntl.LOCK_EX)
        if os.fork() == 0:
            with open("/workspace/lock", "r+") as other:
                try:
                    lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os._exit(1)
                except BlockingIOError:
                    os._exit(0)
        print(name, os.wait()[1])
