#!/usr/bin/env python3
"""A second verifier, written from docs/journal-format.md alone. Standard library only.

usage: independent_verifier.py KEY FILE [EARLIER_CHECKPOINT_FILE...]

Exits 0 and says what was proven, or exits 1 and says what is wrong.
"""

import base64
import hashlib
import json
import sys


class Fault(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Fault(why)


# Ed25519, RFC 8032 section 5.1.

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def recover_x(y, sign):
    need(y < P, "a point is not canonical")
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P != 0:
        x = x * SQRT_M1 % P
    need((x * x - x2) % P == 0 and not (x == 0 and sign), "a point is not on the curve")
    return P - x if x & 1 != sign else x


def point(x, y):
    return (x, y, 1, x * y % P)


def decompress(data):
    y = int.from_bytes(data, "little")
    y, sign = y & (2**255 - 1), y >> 255
    return point(recover_x(y, sign), y)


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply(n, p):
    q = (0, 1, 1, 0)
    while n:
        q, p, n = add(q, p) if n & 1 else q, add(p, p), n >> 1
    return q


def same(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE = point(recover_x(BASE_Y, 0), BASE_Y)


def ed25519_ok(public, message, signature):
    if len(public) != 32 or len(signature) != 64:
        return False
    a, r = decompress(public), decompress(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    small_order = any(same(multiply(8, p), (0, 1, 1, 0)) for p in (a, r))
    return s < L and not small_order and same(multiply(s, BASE), add(r, multiply(k, a)))


# Keys and checkpoints.


def unbase64(text):
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise Fault("this is not base64: " + text)
    need(base64.b64encode(data).decode() == text, "base64 has one spelling")
    return data


class Key:
    def __init__(self, text):
        self.text = text.strip()
        self.name, key_id, tagged = self.text.split("+", 2)
        tagged = unbase64(tagged)
        need(len(tagged) == 33 and tagged[0] == 1, "not an Ed25519 key")
        self.public = tagged[1:]
        self.id = hashlib.sha256(self.name.encode() + b"\n" + tagged).digest()[:4]
        need(self.id.hex() == key_id, "the key does not fit its id")

    def open(self, note):
        """The (size, root) that a note signs."""
        text, separator, block = note.rpartition("\n\n")
        need(separator and block.endswith("\n"), "the checkpoint is not a signed note")
        text += "\n"
        signature = None
        for line in block[:-1].split("\n"):
            need(line.startswith("\u2014 ") and line.count(" ") == 2, "bad signature line")
            _, name, encoded = line.split(" ")
            tagged = unbase64(encoded)
            if name == self.name and tagged[:4] == self.id and signature is None:
                signature = tagged[4:]
        need(signature is not None, "the checkpoint is not signed by this key")
        need(ed25519_ok(self.public, text.encode(), signature), "the signature is false")
        lines = text.split("\n")
        need(len(lines) == 4 and lines[3] == "", "a checkpoint has three lines")
        need(lines[0] == self.name, "the checkpoint is of another journal")
        need(lines[1].isascii() and lines[1].isdigit(), "the size is not a number")
        need(str(int(lines[1])) == lines[1], "the size is not canonical")
        root = unbase64(lines[2])
        need(len(root) == 32, "the root is not a hash")
        return int(lines[1]), root


# The tree, RFC 6962.


def leaf_hash(entry):
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


class Tree:
    """The complete subtrees of a tree, largest first."""

    def __init__(self, size, peaks):
        need(len(peaks) == bin(size).count("1"), "the left edge does not fit")
        self.size, self.peaks = size, list(peaks)

    def push(self, height, node):
        need(self.size % (1 << height) == 0, "the right edge does not fit")
        index = self.size >> height
        while index & 1:
            node, index = node_hash(self.peaks.pop(), node), index >> 1
        self.peaks.append(node)
        self.size += 1 << height

    def root(self):
        if not self.peaks:
            return hashlib.sha256(b"").digest()
        node = self.peaks[-1]
        for left in reversed(self.peaks[:-1]):
            node = node_hash(left, node)
        return node


def tiling(start, end):
    """The heights of the complete subtrees that tile a range."""
    while start < end:
        height = (end - start).bit_length() - 1
        if start:
            height = min(height, (start & -start).bit_length() - 1)
        yield height
        start += 1 << height


def root_from_path(leaf, index, size, path):
    need(index < size, "the checkpoint does not cover the entry")
    node, last = index, size - 1
    for sibling in path:
        need(last > 0, "the path is too long")
        if node & 1 or node == last:
            leaf = node_hash(sibling, leaf)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            leaf = node_hash(leaf, sibling)
        node, last = node >> 1, last >> 1
    need(last == 0, "the path is too short")
    return leaf


# What can follow what.


class Story:
    def __init__(self, key):
        self.key, self.calls, self.grants = key, {}, set()
        self.principals, self.keys, self.workspaces = set(), {}, set()
        self.runs, self.records = {}, {}

    def tell(self, seq, fact):
        (kind, what), = fact.items()
        if kind == "home":
            need(seq == 0, "the home is made twice")
            need(what["created"]["journalKey"] == self.key.text, "the journal has another key")
            return
        need(seq > 0, "the first entry must make the home")
        if kind == "grant":
            (event, data), = what.items()
            grant = data["grant"]["id"] if event == "issued" else data["grant"]
            need((event == "issued") != (grant in self.grants), "an impossible grant")
            self.grants.add(grant)
        elif kind == "principal":
            (event, data), = what.items()
            there = data["principal"] in self.principals
            need(event in ("added", "removed"), "an unknown fact")
            need((event == "added") != there, "an impossible principal")
            (self.principals.add if event == "added" else self.principals.remove)(data["principal"])
        elif kind == "key":
            (event, data), = what.items()
            self.tell_key(event, data)
        elif kind == "policy":
            need(list(what) == ["adopted"], "an unknown fact")
        elif kind == "workspace":
            (event, data), = what.items()
            need(event in ("added", "reset", "removed"), "an unknown fact")
            name = data["workspace"]["id"] if event == "added" else data["workspace"]
            need((event == "added") != (name in self.workspaces), "an impossible workspace")
            (self.workspaces.discard if event == "removed" else self.workspaces.add)(name)
        elif kind == "artifact":
            need(list(what) == ["collected"], "an unknown fact")
        elif kind == "run":
            self.tell_run(what["run"], what["first"], what["events"], "seed" in what)
        elif kind == "record":
            place = (what["tenant"], what["space"], what["key"])
            need(what["version"] == self.records.get(place, 0) + 1, "a version is left out")
            self.records[place] = what["version"]
        else:
            need(kind == "call", "an unknown fact")
            (event, data), = what["event"].items()
            call = what["execution"]
            self.calls[call] = self.next(self.calls.get(call), event, data)

    def tell_run(self, run, first, events, seeded):
        last = {"run.completed", "run.failed", "run.cancelled"}
        ends = [event.get("type") in last for event in events]
        need(events and not any(ends[:-1]), "a run goes on after its end")
        need(seeded == (first == 0), "a run begins with nothing")
        need(self.runs.get(run, 0) == first, "events of a run are missing")
        self.runs[run] = None if ends[-1] else first + len(events)

    def tell_key(self, event, data):
        need(event in ("created", "retired", "revoked"), "an unknown fact")
        if event == "created":
            key, who = data["key"], data["key"]["principal"]
            need(key["id"] not in self.keys, "a key is made twice")
            need(who in self.principals, "a key for nobody")
            human = who.startswith("human:")
            need(human or not {"admin", "approve"} & set(key["scopes"]), "a machine approves")
            old = key.get("replaces")
            need(old is None or self.keys.get(old, [None])[0] == who, "a stolen key")
            self.keys[key["id"]] = [who, key["expiresAt"]]
            return
        need(data["key"] in self.keys, "a key that was never made")
        if event == "retired":
            key = self.keys[data["key"]]
            need(data["expiresAt"] <= key[1], "a key that lasts longer than it was made for")
            key[1] = data["expiresAt"]

    @staticmethod
    def next(state, event, data):
        """(name of the state, attempt) after an event."""
        name, attempt = state or ("none", 0)
        after = {
            ("none", "declared"): "declared",
            ("declared", "validated"): "validated",
            ("declared", "failed"): "ended",
            ("validated", "failed"): "ended",
            ("validated", "denied"): "ended",
            ("validated", "authorized"): "authorized",
            ("authorized", "started"): "executing",
            ("authorized", "replayed"): "ended",
            ("authorized", "aborted"): "aborted",
            ("executing", "committed"): "committed",
            ("executing", "aborted"): "aborted",
            ("executing", "rolledBack"): "rolledBack",
            ("committed", "completed"): "ended",
            ("aborted", "rolledBack"): "rolledBack",
            ("retrying", "authorized"): "authorized",
            ("retrying", "denied"): "ended",
            ("retrying", "aborted"): "aborted",
        }.get((name, event))
        need(after, f"`{event}` cannot follow the state {name}")
        if event == "authorized":
            need(data["attempt"] == (attempt if name == "retrying" else 1), "a wrong attempt")
            attempt = data["attempt"]
        if event == "started":
            need(data["attempt"] == attempt, "a wrong attempt")
        if event == "rolledBack":
            retry = data.get("retry")
            return ("retrying", retry["attempt"]) if retry else ("ended", 0)
        return (after, attempt)


# Files.


def parse_first_line(line, names):
    value = json.loads(line)
    need(list(value) == names, "the first line has other fields")
    again = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    need(again.encode() == line, "the first line was rewritten")
    return value


def digests(texts):
    need(all(len(t) == 64 and set(t) <= set("0123456789abcdef") for t in texts), "bad hash")
    return [bytes.fromhex(text) for text in texts]


def verify_export(line, entries, key, earlier):
    names = ["format", "first", "end", "left", "right", "checkpoint"]
    header = parse_first_line(line, names)
    size, root = key.open(header["checkpoint"])
    first, end = header["first"], header["end"]
    need(0 <= first <= end <= size, "the range does not fit the checkpoint")
    need(len(entries) == end - first, f"{end - first} entries expected, {len(entries)} found")
    tree, prev = Tree(first, digests(header["left"])), "0" * 64 if first == 0 else None
    story = Story(key)
    roots = {first: tree.root(), size: root}
    for seq, line in enumerate(entries, first):
        entry = json.loads(line)
        need(entry["seq"] == seq, f"entry {seq} is missing")
        need(prev in (None, entry["prev"]), f"entry {seq} or the one before it was changed")
        if first == 0:
            story.tell(seq, entry["fact"])
        leaf = leaf_hash(line)
        tree.push(0, leaf)
        prev, roots[tree.size] = leaf.hex(), tree.root()
    right = digests(header["right"])
    heights = list(tiling(end, size))
    need(len(right) == len(heights), "the right edge does not fit")
    for height, node in zip(heights, right):
        tree.push(height, node)
    need(tree.root() == root, "the entries do not lead to the signed root")
    for note in earlier:
        old_size, old_root = key.open(note)
        need(old_size <= size, "the journal was cut back")
        need(roots.get(old_size) == old_root, "it does not continue the earlier checkpoint")
    return f"entries {first} to {end} of {size}"


def verify_proof(line, entries, key, earlier):
    proof = parse_first_line(line, ["format", "entry", "seq", "path", "checkpoint"])
    need(not entries and not earlier, "a proof stands alone")
    size, root = key.open(proof["checkpoint"])
    entry = proof["entry"].encode()
    need(json.loads(entry)["seq"] == proof["seq"], "the proof is of another entry")
    path = digests(proof["path"])
    found = root_from_path(leaf_hash(entry), proof["seq"], size, path)
    need(found == root, "the path does not lead to the signed root")
    return f"entry {proof['seq']} of {size}"


def verify(data, key, earlier):
    need(data.endswith(b"\n"), "the file is empty or its last line is cut")
    line, *entries = data[:-1].split(b"\n")
    kinds = {"countersign-journal/1": verify_export, "countersign-proof/1": verify_proof}
    check = kinds.get(json.loads(line).get("format"))
    need(check, "not a known format")
    return check(line, entries, key, earlier)


def main():
    key, path, *earlier = sys.argv[1:]
    notes = [open(note, encoding="utf-8", newline="").read() for note in earlier]
    with open(path, "rb") as file:
        data = file.read()
    try:
        print("verified:", verify(data, Key(key), notes))
    except (Fault, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.exit(f"refused: {error!r}")


if __name__ == "__main__":
    main()
