#!/usr/bin/env python3
"""Checks that every *_test.cc in the tree is compiled, or belongs to an optional part that CMake left out.

usage: check_test_sources.py ROOT compile_commands.json left_out.txt
"""
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from left_out import parts  # noqa: E402


def sources(path):
    """The file, or those that are compiled by way of it: CMake makes one file of many."""
    if not re.fullmatch(r"unity_\d+_cxx\.cxx", path.name):
        return {path}
    text = path.read_text(encoding="utf-8")
    return {pathlib.Path(name).resolve() for name in re.findall(r'#include "([^"]+)"', text)}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    commands = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    built = set()
    for command in commands:
        built |= sources(pathlib.Path(command["directory"], command["file"]).resolve())
    there = {path for top in ("src", "tests", "examples", "benchmarks")
             for path in (root / top).rglob("*_test.cc")}
    excused = {(root / source).resolve(): part for part in parts(sys.argv[3]) for source in part.test_sources}
    for path in sorted((there - built) & excused.keys()):
        print(f"{path.relative_to(root)} is left out: {excused[path].reason}")
    forgotten = sorted(there - built - excused.keys())
    for path in forgotten:
        print(f"{path.relative_to(root)} is in the tree but in no CMakeLists.txt")
    if not forgotten:
        print(f"{len(there & built)} of {len(there)} test files are built")
    sys.exit(bool(forgotten))


if __name__ == "__main__":
    main()
