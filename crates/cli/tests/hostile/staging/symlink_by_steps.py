# tries: leave links that are harmless one by one and climb out together
# expect: refused STAGING_REFUSED
import os

from probe import fact

os.chdir(fact("ws", "/workspace"))
# `dir/up` stays inside; `out` goes through it and one step further.
os.symlink("..", "dir/up")
os.symlink("dir/up/../canary/secret.txt", "out")
