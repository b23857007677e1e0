# tries: to fill the disk
# run: 5
# exit_code: 137
# notes: LIMIT_REACHED 1; MISSING_OUTPUT 1
# outputs: report.txt
chunk = b"quokka" * 200_000
with open("/out/report.txt", "wb") as file:
    while True:
        file.write(chunk)
