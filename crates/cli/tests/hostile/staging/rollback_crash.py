# tries: change the workspace and crash
# expect: signal 11
import ctypes
import os

from probe import fact

os.chdir(fact("ws", "/workspace"))
os.rename("keep.txt", "gone.txt")
os.truncate("shared.txt", 0)
ctypes.string_at(0)
