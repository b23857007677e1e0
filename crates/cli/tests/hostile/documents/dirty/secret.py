# tries: to print a key
# run: 0
# exit_code: 0
# notes: SECRET_IN_STDOUT 1
# hides: quokka
print("the quokka's key is gh" + "p_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7j")
