# tries: leave a socket among the outputs
# expect: exit 0 or refused STAGING_REFUSED
import os
import socket

from probe import fact

os.chdir(fact("out", "/out"))
socket.socket(socket.AF_UNIX).bind("socket")
