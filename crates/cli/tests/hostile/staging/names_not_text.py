# tries: confuse listings by names that are no text, and text that looks like other text
# expect: exit 0 or refused STAGING_REFUSED
# diff: out ?%FF%FE ?a%80 ?%C3%A9 ?e%CC%81 ?%E2%80%AEtxt.exe ?%EF%BB%BFbom ?%ED%A0%80
import os

from probe import fact

os.chdir(fact("out", "/out"))
for name in (b"\xff\xfe", b"a\x80", "é".encode(), "e\u0301".encode(), "\u202etxt.exe".encode(),
             "\ufeffbom".encode(), b"\xed\xa0\x80"):
    with open(name, "wb") as file:
        file.write(name)
