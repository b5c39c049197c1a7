#!/usr/bin/env python3
"""Checks that nothing but the end of data is OutOfRange: loops end on that code.

usage: check_end_of_data.py ROOT
"""
import pathlib
import re
import sys

# Where the data ends: iterators, closed queues, and a program that ends its loop.
MAY_RAISE = {
    "include/cohort/monitored_session.h",
    "src/data/iterator.cc",
    "src/distribute/distributed_dataset.cc",
    "src/ops/fifo_queue.cc",
    "src/ops/iterator_ops.cc",
}
RAISES = re.compile(r"(raise|Error|Status)\s*[({][^;]{0,40}?Code::OutOfRange", re.DOTALL)


def main():
    root = pathlib.Path(sys.argv[1])
    found = set()
    for folder in ("include", "src"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc") or path.name.endswith("_test.cc"):
                continue
            if RAISES.search(path.read_text()):
                found.add(str(path.relative_to(root)))
    for name in sorted(found - MAY_RAISE):
        print(f"{name}: OutOfRange is the end of data; a bad index is InvalidArgument")
    return 1 if found - MAY_RAISE else 0


if __name__ == "__main__":
    sys.exit(main())
