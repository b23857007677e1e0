# tries: replace a file of the workspace by a pipe and a directory by a socket
# expect: refused STAGING_REFUSED
import os
import shutil
import socket

from probe import fact

os.chdir(fact("ws", "/workspace"))
os.unlink("keep.txt")
os.mkfifo("keep.txt")
shutil.rmtree("empty")
socket.socket(socket.AF_UNIX).bind("empty")
