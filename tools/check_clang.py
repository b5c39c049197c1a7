#!/usr/bin/env python3
"""Checks that clang takes the sources of the library, which the preset fuzz compiles with it.

usage: check_clang.py [--aten] ROOT BUILD COMPILER...

COMPILER is clang++, after the compiler cache if there is one. clang reads all sources of a module of src/ as one
file, because headers take most of the time, and generates no code. Its warnings are not shown: g++ checks those.
Modules that include ATen are left out without --aten.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

sys.dont_write_bytecode = True
from compile_commands import ATEN_FIRST, sources  # noqa: E402

OUTPUT_OF_MODULE = re.compile(r" src/(\w+)/CMakeFiles/cohort_\1\.dir/")


def words_that_matter(command):
    """Returns the words of a command that decide what its source means: definitions, directories, the standard."""
    words, kept = shlex.split(command), []
    for word, following in zip(words, words[1:]):
        if word == "-isystem":
            kept += [word, following]
        elif word.startswith(("-D", "-I", "-std=")):
            kept.append(word)
    return tuple(kept)


def uses_aten(words):
    return any("torch/csrc/api/include" in word for word in words)


def batches(root, build):
    """Returns {module: {words: sources}}. Files that the build generates are no sources."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        module = OUTPUT_OF_MODULE.search(entry["command"])
        if module:
            paths = sources(pathlib.Path(entry["directory"], entry["file"]).resolve())
            batch = found.setdefault(module[1], {}).setdefault(words_that_matter(entry["command"]), set())
            batch |= {path for path in paths if path.is_relative_to(root / "src")}
    return found


def is_accepted(compiler, words, batch):
    first = ATEN_FIRST if uses_aten(words) else []
    dependencies = ["-MD", "-MF", batch.with_suffix(".d")]  # for the compiler cache
    command = [*compiler, *words, *first, "-w", "-fsyntax-only", *dependencies, "-c", batch]
    return subprocess.run(command, check=False).returncode == 0


def main():
    arguments = sys.argv[1:]
    with_aten = arguments[:1] == ["--aten"]
    arguments = arguments[with_aten:]
    if len(arguments) < 3:
        sys.exit(__doc__)
    root, build, compiler = pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[1]).resolve(), arguments[2:]
    (build / "clang").mkdir(exist_ok=True)
    count, rejected = 0, set()
    for module, of_module in sorted(batches(root, build).items()):
        for number, (words, paths) in enumerate(sorted(of_module.items())):
            if not paths or uses_aten(words) and not with_aten:
                continue
            batch = build / "clang" / f"{module}_{number}.cc"
            batch.write_text("".join(f'#include "{path}"\n' for path in sorted(paths)), encoding="utf-8")
            count += len(paths)
            if not is_accepted(compiler, words, batch):
                rejected.add(module)
    if rejected:
        sys.exit(f"clang rejects sources in {', '.join(f'src/{module}' for module in sorted(rejected))}")
    if not count:
        sys.exit(f"{build} compiles no module of src/")
    print(f"clang takes {count} files")


if __name__ == "__main__":
    main()
