# tries: confuse listings by names with new lines, escapes and quotes
# expect: exit 0 or refused STAGING_REFUSED
# diff: out ?a%0Ab ?%1B[31mred ?%22quoted%22 ?tab%09 ?%20 ?-rf ?*
# diff: workspace ?a%0Ab ?%1B[31mred ?%22quoted%22 ?tab%09 ?%20 ?-rf ?*
import os

from probe import fact

for place in (fact("out", "/out"), fact("ws", "/workspace")):
    os.chdir(place)
    for name in ("a\nb", "\x1b[31mred", '"quoted"', "tab\t", " ", "-rf", "*"):
        with open(name, "w") as file:
            file.write(repr(name))
