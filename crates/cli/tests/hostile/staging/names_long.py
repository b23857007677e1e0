# tries: the longest names there are
# expect: exit 0 or refused STAGING_REFUSED
# diff: out ?nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn
import os

from probe import fact

os.chdir(fact("out", "/out"))
with open("n" * 255, "w") as file:
    file.write("long\n")
os.symlink("t" * 4000, "link")
os.unlink("link")
