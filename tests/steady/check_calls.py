#!/usr/bin/env python3
"""Checks that the tests of this directory make each call of the classes that a program uses while it runs.

usage: check_calls.py LIST HEADERS TESTS
LIST has a line "Class" for each class whose calls are made, and below it indented lines "call  reason" for calls that
are not made. A question without arguments, which is const, need not be asked: it gives what the object has.
"""
import pathlib
import re
import sys

CLASS = re.compile(r"^class (?:\[\[nodiscard\]\] )?(\w+)[^;{]*\{\n(.*?)^\};", re.S | re.M)
# A function begins at two blanks; its parameters may go on in the lines below.
CALL = re.compile(r"^  (?=[\w\[<])(?!friend|explicit|using|template|requires|return)[^()\n=]*?[\w>&*:] (\w+)(\(.*)$", re.M)


def public_part(body):
    parts = re.split(r"^ (public|protected|private):", body, flags=re.M)
    return "".join(text for access, text in zip(parts[1::2], parts[2::2]) if access == "public")


def calls_of(body, name):
    for found in CALL.finditer(public_part(body)):
        is_question = re.match(r"\(\) const\b", found[2])
        if found[1] not in (name, "operator") and not is_question:
            yield found[1]


def read_list(path):
    classes, reasons = [], {}
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            classes.append(line.strip())
            continue
        call, reason = re.split(r"\s{2,}", line.strip(), maxsplit=1)
        reasons[classes[-1], call] = reason
    return classes, reasons


def problems(classes, reasons, headers, tests):
    found = {}
    for name, body in CLASS.findall(re.sub(r"//.*", "", headers)):
        found.setdefault(name, set()).update(calls_of(body, name))
    for name in classes:
        if name not in found:
            yield f"{name}: no public header has this class"
        for call in sorted(found.get(name, [])):
            is_made = re.search(rf"(?<!\w){call}\(", tests)
            if not is_made and (name, call) not in reasons:
                yield f"{name}::{call}: no test of tests/steady makes this call, and the list has no reason"
    for name, call in reasons:
        if call not in found.get(name, []):
            yield f"{name}::{call}: the list has a reason for a call that does not exist"


def main():
    path, headers, tests = map(pathlib.Path, sys.argv[1:])
    texts = ["\n".join(file.read_text() for file in sorted(directory.glob(names)))
             for directory, names in ((headers, "*.h"), (tests, "*.cc"))]
    found = list(problems(*read_list(path), *texts))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
