#!/usr/bin/env python3
"""Compares the page for users of tf.distribute with a list of names and with the public headers.

usage: check_names.py LIST PAGE HEADERS   a line of LIST: the name, two spaces or more, our text
"""
import pathlib
import re
import sys


def missing(lines, page, headers):
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        name, ours = re.split(r"\s{2,}", line.strip(), maxsplit=1)
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", page):
            yield f"{name}: not on the page"
        if ours not in headers:
            yield f"{name}: no public header has '{ours}'"


def main():
    names, page, directory = map(pathlib.Path, sys.argv[1:])
    headers = "\n".join(path.read_text() for path in sorted(directory.rglob("*.h")))
    found = list(missing(names.read_text().splitlines(), page.read_text(), headers))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
