# tries: a tree deep enough to exhaust the stack of whoever walks it
# flags: --inodes 5000
# expect: exit 0 or refused STAGING_REFUSED or limit inodes
# diff: workspace ?d/**
import os

from probe import fact

os.chdir(fact("ws", "/workspace"))
for _ in range(2000):
    os.mkdir("d")
    os.chdir("d")
