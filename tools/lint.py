#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy over the sources and headers of the library.

usage: lint.py [--all] [--since COMMIT] [--jobs N] ROOT BUILD

Looks at the files of include/ and src/ that differ from COMMIT, or from where this branch left main, and
at all files with --all. tools/lint.txt lists where a check is wrong. A header is read in the source of its name, or in a source that includes it. With
--all files are read as the build compiles them, several at once. Tests are left out, and so is what clang
itself says of the code: the project is compiled by g++ 12, of whose C++20 clang 14 lacks a part.

Exits with 1 if a check fails.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from compile_commands import entries  # noqa: E402

FOUND = re.compile(r"^(\S+?)(:\d+:\d+): (?:warning|error): (.*) \[([\w.-]+)[^\]]*\]$", re.M)


def git(root, *arguments):
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def changed_files(root, since):
    """Returns the files that differ from `since`, or from where this branch left main."""
    if since is None:
        since = next((base[0] for main in ("origin/main", "main") if (base := git(root, "merge-base", "HEAD", main))), None)
    if since is None or not git(root, "rev-parse", "--verify", since):
        sys.exit(f"lint: git knows no commit {since or 'main'} to compare with; use --all or --since")
    names = git(root, "diff", "--name-only", since, "--", "include", "src")
    return [root / name for name in names + git(root, "ls-files", "--others", "--exclude-standard", "include", "src")]


def source_of(header, sources):
    """Returns the source of the header's name, else the first that includes it."""
    beside = header.with_suffix(".cc")
    if beside in sources:
        return beside
    included = f'/{header.name}"'
    return next((source for source in sources if included in source.read_text(encoding="utf-8")), None)


def sources_to_read(files, sources):
    chosen = {file if file.suffix == ".cc" else source_of(file, sources)
              for file in files if file.suffix in (".h", ".cc") and file.exists()}
    return [source for source in sources if source in chosen]


def exceptions(root):
    """Returns the pairs of check and file in which the check is wrong."""
    path = root / "tools/lint.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    heads = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {(check, name) for check, _, names in heads for name in names.split()}


def run_tidy(tool, root, database, source):
    """Returns the failures in one source as (check, file, line, text), and whether clang could not read all of it."""
    done = subprocess.run([tool, "-p", database, "--quiet", f"--header-filter={root}/(include|src)/", source],
                          capture_output=True, text=True)
    found = FOUND.findall(done.stdout)
    if done.returncode and not found:
        sys.exit(f"lint: clang-tidy failed on {source}\n{done.stdout}{done.stderr}")
    failures = {(check, name.removeprefix(f"{root}/"), line, text) for name, line, text, check in found
                if not check.startswith("clang-diagnostic-")}
    return failures, any(check == "clang-diagnostic-error" for *_, check in found)


def is_of_the_library(root, build, entry):
    path = pathlib.Path(entry["file"])
    if not path.is_relative_to(root / "src") and not path.is_relative_to(build / "src"):
        return False
    return not path.name.endswith((".pb.cc", "_test.cc")) and "_test.dir/" not in str(path)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--since")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("root", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    options = parser.parse_args()
    tool = shutil.which("clang-tidy")
    if not tool:
        sys.exit("lint: clang-tidy is missing; scripts/setup.sh --lint installs it")
    commands = [entry for entry in entries(options.build, several_at_once=options.all)
                if is_of_the_library(options.root, options.build, entry)]
    sources = [pathlib.Path(entry["file"]) for entry in commands]
    if not options.all:
        sources = sources_to_read(changed_files(options.root, options.since), sources)
    with tempfile.TemporaryDirectory() as database, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        pathlib.Path(database, "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
        results = list(pool.map(lambda source: run_tidy(tool, options.root, database, source), sources))
    found, excused = set().union(*(found for found, _ in results)), exceptions(options.root)
    failures = sorted(f"{name}{line}: {text} [{check}]" for check, name, line, text in found if (check, name) not in excused)
    if options.all:
        unused = excused - {(check, name) for check, name, *_ in found}
        failures += sorted(f"lint.txt: {check} does not fail in {name}; take the line out" for check, name in unused)
    partly = sum(unread for _, unread in results)
    print("\n".join(failures + [f"lint: {len(failures)} failures in {len(sources)} compilations" +
                                (f", {partly} of which clang could read in part only" if partly else "")]))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
