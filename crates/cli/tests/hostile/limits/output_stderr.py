# tries: flood standard error
# flags: --output-bytes 65536
# expect: limit output
import sys

while True:
    sys.stderr.write("all work and no play makes a dull tool\n")
