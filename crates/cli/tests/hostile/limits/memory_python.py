# tries: grow one list for ever, and carry on after a MemoryError
# flags: --memory 96
# expect: limit memory
hoard = []
while True:
    try:
        hoard.append(bytearray(1 << 20))
    except MemoryError:
        hoard = [hoard]
