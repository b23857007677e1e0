# tries: a private key in its usual form
# run: 0
# exit_code: 0
# notes: SECRET_IN_STDOUT 1; PAYLOAD_IN_STDOUT 1
# hides: quokka
import base64
import hashlib

print("-----BEGIN PRIVATE " + "KEY-----")
for line in range(6):
    print(base64.b64encode(hashlib.sha384(b"quokka %d" % line).digest()).decode())
print("-----END PRIVATE " + "KEY-----")
