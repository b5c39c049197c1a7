#!/usr/bin/env python3
"""Checks rules of the source that a search can check: what may stand in few places, or in none.

usage: check_source.py ROOT
"""
import dataclasses
import pathlib
import re
import sys


@dataclasses.dataclass
class Rule:
    pattern: str
    why: str
    allowed: tuple = ()  # files, or directories that end in "/"

    def allows(self, name):
        return any(name.startswith(place) if place.endswith("/") else name == place
                   for place in self.allowed)


RULES = (
    Rule(r"(raise|Error|Status)\s*[({][^;]{0,40}?Code::OutOfRange",
         "OutOfRange is the end of data; a bad index is InvalidArgument",
         # Where the data ends: iterators, closed queues, and a program that ends its loop.
         ("include/cohort/monitored_session.h", "src/data/iterator.cc",
          "src/distribute/distributed_dataset.cc", "src/ops/fifo_queue.cc", "src/ops/iterator_ops.cc")),
    Rule(r"__builtin_ia32_pause|_mm_pause|sched_yield|this_thread::(yield|sleep)|\b(u|nano)sleep\(",
         "only src/base/waiting.h spins, yields or sleeps; wait on a condition, or use what it has",
         ("src/base/waiting.h",)),
    Rule(r"std::random_device", "ask random_number() of src/base/random_number.h",
         ("src/base/random_number.cc",)),
    Rule(r"\bop(\.|->)name\s*[=!]=|\bop(\.|->)name\.starts_with",
         "ask for a trait of the op (src/ops/op.h), or compare with its constant", ("src/ops/",)),
    Rule(r"extern const OpDef", "src/ops/all_ops.h declares every op", ("src/ops/all_ops.h",)),
)


def problems(root):
    for folder in ("include", "src"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc") or path.name.endswith("_test.cc"):
                continue
            name = str(path.relative_to(root))
            text = path.read_text()
            for rule in RULES:
                found = None if rule.allows(name) else re.search(rule.pattern, text, re.DOTALL)
                if found:
                    line = text.count("\n", 0, found.start()) + 1
                    yield f"{name}:{line}: {rule.why}"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
