#!/usr/bin/env python3
"""Checks that every *_test.cc in the tree is compiled.

usage: check_test_sources.py ROOT compile_commands.json
"""
import json
import pathlib
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    commands = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    built = {pathlib.Path(command["directory"], command["file"]).resolve() for command in commands}
    there = {path for top in ("src", "tests", "examples", "benchmarks")
             for path in (root / top).rglob("*_test.cc")}
    forgotten = sorted(there - built)
    for path in forgotten:
        print(f"{path.relative_to(root)} is in the tree but in no CMakeLists.txt")
    if not forgotten:
        print(f"all {len(there)} test files are built")
    sys.exit(bool(forgotten))


if __name__ == "__main__":
    main()
