# tries: turn directories into views of others by the attributes that overlays use
# expect: exit 0 or refused STAGING_REFUSED
# diff: workspace ?dir ?empty ?empty/inside.txt ?.
# diff: out ?sub ?sub/inside.txt ?.
import os

from probe import contained, escaped, fact

for place in (fact("ws", "/workspace"), fact("out", "/out")):
    os.chdir(place)
    sub = "empty" if os.path.isdir("empty") else "sub"
    os.makedirs(sub, exist_ok=True)
    for space in ("user", "trusted"):
        for name, value in (
            ("opaque", b"y"),
            ("redirect", b"/../../etc"),
            ("redirect", b"/dir"),
            ("origin", b"\0" * 16),
            ("metacopy", b""),
            ("whiteouts", b"y"),
        ):
            for path in (".", sub):
                try:
                    os.setxattr(path, f"{space}.overlay.{name}", value)
                    print(f"set {space}.overlay.{name} on {place}/{path}")
                except OSError as error:
                    contained(f"{space}.overlay.{name}: {error}")
    if "passwd" in os.listdir(sub):
        escaped(f"{place}/{sub} shows something else")
        raise SystemExit(42)
    with open(f"{sub}/inside.txt", "w") as file:
        file.write("inside\n")
