# tries: the same, written in two steps
# run: 0
# exit_code: 0
# notes: SECRET_IN_STDOUT 1
# hides: quokka
import sys
import time

sys.stdout.write("quokka gh" + "p_Ab3dEf6h")
sys.stdout.flush()
time.sleep(0.2)
sys.stdout.write("Ij9lMn2pQr5tUv8xYz1bCd4fGh7j\n")
