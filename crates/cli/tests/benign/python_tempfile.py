# tries: temporary files and directories, also without a name
# expect: exit 0
import os
import tempfile

with tempfile.TemporaryDirectory() as directory:
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(b"x" * 100000)
        file.flush()
        print(os.path.getsize(file.name), os.stat(file.name).st_mode & 0o777)
    with tempfile.TemporaryFile() as file:
        file.write(b"nameless")
        file.seek(0)
        print(file.read())
    os.symlink("nowhere", f"{directory}/link")
    os.mkfifo(f"{directory}/pipe")
    print(sorted(os.listdir(directory)))
