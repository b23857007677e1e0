# tries: to rule the terminal of whoever reads it
# run: 0
# exit_code: 0
# notes: None observed
# shows: harmless\x0dquokka\x0d
import sys

sys.stdout.buffer.write(
    b"\x1b[2J\x1b[1;1Hquokka\x1b]0;quokka\x07\x1b]8;;http://example.org\x1b\\quokka\x1b]8;;\x1b\\\n"
    b"harmless\rquokka\r\n\x08\x08\x08quokka\x7f\x0c\x0b\n\xc2\x9b31mquokka\n"
)
