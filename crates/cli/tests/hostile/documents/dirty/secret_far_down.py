# tries: a key far below what is shown
# run: 0
# exit_code: 0
# notes: SECRET_IN_STDOUT 1
# hides: quokka
for number in range(5000):
    print("quokka", number)
print("gh" + "p_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7j")
