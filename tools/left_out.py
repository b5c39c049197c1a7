#!/usr/bin/env python3
"""Prints what the tests of a build directory left out, and why: optional parts that CMake did not find what they
need for, and tests that were skipped in the last run.

usage: left_out.py BUILD
"""
import collections
import pathlib
import re
import sys
import typing

START = re.compile(r"^\d+/\d+ Test: (.+)$", re.MULTILINE)
# GoogleTest's: a place, the reason, and the name below it.
SKIPPED = re.compile(r"^[^\n]+: Skipped\n(.*?)\n+\[  SKIPPED \] (\S+) \(", re.MULTILINE | re.DOTALL)


class Part(typing.NamedTuple):
    """One line of left_out.txt, which cmake/CohortOptional.cmake writes."""
    name: str
    part: str
    reason: str
    remedy: str
    test_sources: list


def parts(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return [Part(*line.split("\t")[:4], line.split("\t")[4].split()) for line in lines]


def skipped_tests(log):
    """The reasons of the last run's skipped tests: for each, the tests, as `program: test`."""
    reasons = collections.defaultdict(list)
    pieces = START.split(log)
    for program, text in zip(pieces[1::2], pieces[2::2]):
        for reason, test in SKIPPED.findall(text):
            reasons[" ".join(reason.split())].append(f"{program}: {test}")
    return reasons


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1])
    log = build / "Testing/Temporary/LastTest.log"
    lines = [f"{part.part}: {part.reason} ({part.remedy})" for part in parts(build / "left_out.txt")]
    for reason, tests in skipped_tests(log.read_text(encoding="utf-8", errors="replace")).items():
        more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        lines.append(f"{tests[0]}{more}: {reason}")
    print("\nLeft out, and why:" if lines else "\nNothing was left out.")
    for line in lines:
        print(f"  {line}")


if __name__ == "__main__":
    main()
