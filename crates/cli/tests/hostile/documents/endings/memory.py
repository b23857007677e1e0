# tries: to use more memory than it may
# run: 5
# exit_code: 137
# notes: LIMIT_REACHED 1
# more: --memory 64
# shows: quokka began
print("quokka began", flush=True)
hoard = []
while True:
    hoard.append(bytearray(b"quokka") * 1_000_000)
