# tries: have the publishing write through a link to a directory of the host
# expect: refused STAGING_REFUSED
import os
import shutil

from probe import fact

os.chdir(fact("ws", "/workspace"))
shutil.rmtree("dir")
os.symlink(fact("canary"), "dir")
