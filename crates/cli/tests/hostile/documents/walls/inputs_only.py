# tries: to see more inputs than were declared
# run: 0
# exit_code: 0
# notes: None observed
# shows: quokka contained
import os

if sorted(os.listdir("/in")) != ["host.txt", "main.py"]:
    print("escaped: quokka", os.listdir("/in"))
    raise SystemExit(42)
if os.getcwd() != "/in":
    raise SystemExit(43)
print("quokka contained")
