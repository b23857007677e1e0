# tries: a script to be saved and run
# run: 0
# exit_code: 0
# notes: PAYLOAD_IN_STDOUT *
# hides: quokka
print("#!/bin/sh")
print("echo quokka > /tmp/x")
