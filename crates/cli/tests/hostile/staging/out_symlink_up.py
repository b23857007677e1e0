# tries: put links among the outputs that lead one step too far
# expect: refused STAGING_REFUSED
import os

from probe import fact

os.chdir(fact("out", "/out"))
os.mkdir("sub")
os.symlink("../..", "sub/up")
os.symlink(fact("canary"), "canary")
