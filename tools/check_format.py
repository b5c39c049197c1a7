#!/usr/bin/env python3
"""Checks that clang-format would change nothing; with --fix, makes the changes.

usage: check_format.py [--fix] ROOT

Looks at the files that git knows or would add, and at every source file where there is no git.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

DIRECTORIES = ("include", "src", "examples", "tests", "benchmarks")


def source_files(root):
    listed = None
    if (root / ".git").exists() and shutil.which("git"):
        found = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", *DIRECTORIES],
            capture_output=True)
        if found.returncode == 0:
            listed = [root / name.decode() for name in found.stdout.split(b"\0") if name]
    if listed is None:
        listed = [path for directory in DIRECTORIES for path in (root / directory).rglob("*")]
    return sorted(path for path in listed if path.suffix in (".h", ".cc") and path.is_file())


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("root", type=pathlib.Path)
    options = parser.parse_args()
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not tool:
        sys.exit("clang-format is missing; scripts/setup.sh installs it")
    files = source_files(options.root)
    if not files:
        sys.exit(f"no source files under {options.root}")
    mode = ["-i"] if options.fix else ["--dry-run", "--Werror"]
    result = subprocess.run([tool, "--style=file", *mode, *files], capture_output=True, text=True)
    wrong = sorted({line.split(":")[0] for line in result.stderr.splitlines() if ": error:" in line})
    if result.returncode or wrong:
        print("\n".join(wrong) or result.stderr)
        sys.exit(f"{len(wrong)} of {len(files)} files are not in the project's form; run: make format")
    print(f"{len(files)} files are in the project's form")


if __name__ == "__main__":
    main()
