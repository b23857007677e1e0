# tries: burn the processor with several processes at once
# flags: --cpu-time 1 --time 40
# expect: limit cpuTime
import os

for _ in range(3):
    if os.fork() == 0:
        break
while True:
    pass
