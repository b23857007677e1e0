#!/usr/bin/env python3
"""A second verifier of receipts, written from docs/receipts.md and docs/journal-format.md alone.
Standard library, and the keys and trees of independent_verifier.py beside it.

usage: independent_receipt.py KEY FILE

Checks the envelope, the checkpoint, every audit path, the order of entries, the home, the subjects,
the values, and every signature by the home and by approvers. Exits 0 and says what was proven, or
exits 1 and says what is wrong.
"""

import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from independent_verifier import (  # noqa: E402
    Fault,
    Key,
    ed25519_ok,
    leaf_hash,
    need,
    root_from_path,
    unbase64,
)

PAYLOAD_TYPE = "application/vnd.in-toto+json"


def only(value, *keys):
    need(isinstance(value, dict) and set(value) == set(keys), "unexpected or missing fields")
    return [value[key] for key in keys]


def canonical(value):
    """RFC 8785, as far as signed objects need it: text and whole numbers."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def signed_by(public, domain, value, signature):
    message = domain + b"\n" + canonical(value)
    return ed25519_ok(public, message, bytes.fromhex(signature))


def open_envelope(key, text):
    payload, kind, signatures = only(json.loads(text), "payload", "payloadType", "signatures")
    need(kind == PAYLOAD_TYPE, "another type of payload")
    need(len(signatures) == 1, "not one signature")
    key_id, signature = only(signatures[0], "keyid", "sig")
    need(key_id == key.name + "+" + key.id.hex(), "signed by another key")
    payload = unbase64(payload)
    message = b"DSSEv1 %d %s %d " % (len(kind), kind.encode(), len(payload)) + payload
    need(ed25519_ok(key.public, message, unbase64(signature)), "the signature is false")
    return json.loads(payload)


def prove(proven, size, root):
    """The entries of a list, each at its place in the tree."""
    entries, before = [], -1
    for one in proven:
        entry, path, seq = only(one, "entry", "path", "seq")
        data = unbase64(entry)
        path = [bytes.fromhex(node) for node in path]
        need(root_from_path(leaf_hash(data), seq, size, path) == root, "an entry is not included")
        value = json.loads(data)
        need(value["seq"] == seq and seq > before, "entries are out of order")
        before = seq
        entries.append((seq, data, value["fact"]))
    return entries


def pinned(events):
    """Digests of the values that the call's facts name."""
    for name, data in events:
        if name == "declared":
            yield data["declaration"]
            yield data["input"]["digest"]
        for field in ("subject", "facts", "plan", "output", "stdout", "stderr"):
            if isinstance(data.get(field), dict):
                yield data[field]["digest"]


def subjects(execution, events, last):
    yield "execution/" + execution, hashlib.sha256(last).hexdigest()
    for name, data in events:
        if name in ("committed", "replayed"):
            yield "output", data["output"]["digest"]
            for artifact in data.get("artifacts", []):
                yield "artifact/" + artifact["name"], artifact["digest"]


def without(value, field):
    return {key: value[key] for key in value if key != field}


class Basis:
    """Grants and keys, as far as the story has been told."""

    def __init__(self, authority):
        self.authority, self.grants, self.keys = authority, set(), {}

    def tell(self, fact):
        (kind, what), = fact.items()
        (event, data), = what.items()
        if (kind, event) == ("grant", "issued"):
            grant = data["grant"]
            body = without(grant, "signature")
            genuine = signed_by(self.authority, b"countersign-grant-v1", body, grant["signature"])
            need(genuine, "a grant that the home did not sign")
            self.grants.add(grant["id"])
        elif (kind, event) == ("key", "created"):
            key = data["key"]
            domain = b"countersign-key-record-v1"
            genuine = signed_by(self.authority, domain, key, data["signature"])
            need(genuine, "a key that the home did not sign")
            self.keys[key["id"]] = key
        elif (kind, event) == ("key", "revoked"):
            self.keys.pop(data["key"], None)
        elif (kind, event) == ("principal", "removed"):
            gone = data["principal"]
            self.keys = {i: k for i, k in self.keys.items() if k["principal"] != gone}

    def check_answer(self, answer, asked, declared):
        key = self.keys.get(answer["key"])
        need(key is not None, "an answer by a key that is unknown or revoked")
        need(key["principal"] == answer["by"], "an answer with somebody else's key")
        need(answer["by"].startswith("human:") and "approve" in key["scopes"], "may not answer")
        need(answer["by"] not in [declared["principal"], *declared.get("chain", [])], "own call")
        need(answer["subject"] == asked["subject"]["digest"], "an answer to something else")
        public = bytes.fromhex(key["verifier"])
        body = without(answer, "signature")
        genuine = signed_by(public, b"countersign-approval-v1", body, answer["signature"])
        need(genuine, "an answer that its giver did not sign")


def tell(entries, basis, authority):
    """The story in the journal's order; gives back the people who agreed."""
    told, agreed, declared, asked = Basis(authority), [], None, None
    for _, _, fact in sorted(entries + basis, key=lambda entry: entry[0]):
        if "call" not in fact:
            told.tell(fact) if "home" not in fact else None
            continue
        (event, data), = fact["call"]["event"].items()
        if event == "declared":
            declared = data
        elif event == "asked":
            asked = data
        elif event in ("approved", "refused"):
            told.check_answer(data, asked, declared)
            need(data["by"] not in agreed, "one person answered twice")
            agreed += [data["by"]] if event == "approved" else []
        elif event == "authorized":
            need(set(data["grants"]) <= told.grants, "a grant is missing")
            verdict = data.get("verdict", {"decision": "allow"})
            need(verdict["decision"] != "block", "the policies said no")
            if verdict["decision"] == "require_approval":
                need("approval" in data, "nobody was asked")
                demanded = max(1, verdict.get("approvers", 0))
                need(len(set(agreed)) >= demanded, "the policies asked for more people")
            if "approval" in data:
                need(data["approval"] == asked["subject"]["digest"], "another approval")
                need(len(agreed) >= asked["approvers"], "too few people agreed")
    return agreed


def verify(key, text):
    statement = open_envelope(key, text)
    kind, predicate, predicate_type, subject = only(
        statement, "_type", "predicate", "predicateType", "subject"
    )
    need(kind == "https://in-toto.io/Statement/v1", "another kind of statement")
    need(predicate_type == "urn:countersign:receipt:v1", "another kind of predicate")
    basis, checkpoint, entries, summary, values = only(
        predicate, "basis", "checkpoint", "entries", "summary", "values"
    )
    size, root = key.open(checkpoint)
    entries, basis = prove(entries, size, root), prove(basis, size, root)
    need(entries and basis and basis[0][0] == 0, "the home's first entry is missing")
    home = basis[0][2]["home"]["created"]
    need(home["journalKey"] == key.text and home["home"] == summary["home"], "another home")
    execution = summary["execution"]
    need(all(f["call"]["execution"] == execution for _, _, f in entries), "another call")
    events = [next(iter(fact["call"]["event"].items())) for _, _, fact in entries]
    found = [(s["name"], s["digest"]["sha256"]) for s in subject]
    need(found == list(subjects(execution, events, entries[-1][1])), "other subjects")
    known = set(pinned(events))
    for value in values:
        content, digest = only(value, "content", "digest")
        need(digest in known, "a value that nothing pins")
        need(hashlib.sha256(unbase64(content)).hexdigest() == digest, "a value was changed")
    declared = events[0][1]
    need(events[0][0] == "declared", "the call has no beginning")
    need(declared["tool"] == summary["tool"], "another tool")
    need(declared["principal"] == summary["principal"], "another principal")
    agreed = tell(entries, basis, Key(home["authorityKey"]).public)
    who = ", ".join(agreed) or "nobody"
    return f"execution {execution}: {len(entries)} entries of {size}; agreed: {who}"


def main():
    try:
        with open(sys.argv[2], "rb") as file:
            print("verified:", verify(Key(sys.argv[1]), file.read()))
    except (Fault, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        print("refused:", error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
