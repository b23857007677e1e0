# tries: to make devices and to leave them
# outputs: report.txt
# run: 0
# exit_code: 0
# notes: MISSING_OUTPUT 1
import os
import stat

for kind, numbers in [(stat.S_IFCHR, (1, 5)), (stat.S_IFBLK, (8, 0))]:
    try:
        os.mknod("/out/report.txt", kind | 0o666, os.makedev(*numbers))
        raise SystemExit(42)
    except OSError as error:
        print("quokka contained:", type(error).__name__)
