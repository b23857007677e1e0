# tries: to break readers with bytes that are no text
# run: 0
# exit_code: 0
# notes: None observed
# shows: quokka \xff\xfe \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80 \x00 end
import sys

sys.stdout.buffer.write(b"quokka \xff\xfe \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80 \x00 end\n")
sys.stderr.buffer.write(b"\xe2\x82")
