#!/usr/bin/env python3
"""Writes the compile commands of a build for clangd and clang-tidy, one for each source file.

usage: compile_commands.py ROOT BUILD

CMake compiles several files at once and g++ reads headers that it has compiled before. So the
compile_commands.json of BUILD names few of the sources, and clang cannot read the compiled headers.
This tool writes ROOT/compile_commands.json, with one command for each source.
"""
import json
import pathlib
import re
import shlex
import sys

# In C++20 clang 14 takes the other headers of ATen only after this header.
ATEN_FIRST = ["-include", "ATen/core/ivalue.h"]


def sources(path):
    """Returns the file, or the files that it includes if CMake made it of them."""
    if not re.fullmatch(r"unity_\d+_cxx\.cxx", path.name):
        return [path]
    if not path.exists():
        return []
    return [pathlib.Path(name).resolve() for name in re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8"))]


def words_for_clang(words):
    """Returns the words of a command without compiled headers, source and output, and without -Werror: the build
    is clean for g++, and clang warns of other things."""
    kept, index = [], 0
    while index < len(words):
        word, following = words[index], words[index + 1: index + 2]
        if word == "-include" and following and following[0].endswith("cmake_pch.hxx"):
            index += 2
        elif word in ("-o", "-c"):
            index += 2
        else:
            kept += [word] if word not in ("-Winvalid-pch", "-Werror") else []
            index += 1
    return kept


def entries(build, several_at_once=False):
    """Yields one entry for each source of the build, the first where several targets compile it; or one for each
    file that the compiler is given."""
    seen = set()
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.name.startswith("cmake_pch."):
            continue
        words = words_for_clang(shlex.split(entry["command"]))
        if any("torch/csrc/api/include" in word for word in words) and ATEN_FIRST[1] not in words:
            words += ATEN_FIRST
        for source in [path] if several_at_once else sources(path):
            if source not in seen:
                seen.add(source)
                yield {"directory": entry["directory"], "file": str(source), "arguments": [*words, "-c", str(source)]}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    root, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    target = root / "compile_commands.json"
    text = json.dumps(list(entries(build)), indent=1) + "\n"
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.unlink(missing_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
