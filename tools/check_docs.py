#!/usr/bin/env python3
"""Checks that the files and functions that the documents name exist, and that their links lead somewhere.

usage: check_docs.py ROOT

Looks at the words in `code` of README.md, CONTRIBUTING.md and the pages under docs/:
  - a path that begins with a directory of the project must exist; {a,b}.cc stands for two files, * for any name;
  - a bare file name such as `ring.cc` must be that of some file;
  - an identifier that is qualified (Group::leave) or called (leave()) must occur in the source. In
    docs/architecture.md, docs/internals/ and docs/decisions/, which describe the source, every
    identifier must.
Looks at the links of these pages and of the other *.md in ROOT: the file must exist and, after a #, a section
of that name, spelled as GitHub does. Links to other hosts are not followed.
Fenced blocks are left out: tests/docs runs the programs in them.
"""
import pathlib
import re
import sys

TOPS = ("include", "src", "tests", "tools", "examples", "benchmarks", "docs", "proto", "scripts", "cmake")
SOURCE = {".h", ".cc", ".inc", ".proto", ".py", ".sh", ".txt", ".cmake"}
FENCED = re.compile(r"```.*?```", re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"""\]\(<?([^)\s>]+)|^\[[^\]]+\]:\s+(\S+)|<(?:a|img)\s[^>]*?(?:href|src)=["']([^"']+)""")
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
PATH = re.compile(rf"(?:{'|'.join(TOPS)})/[\w./{{}},*-]+")
FILE = re.compile(r"[\w{},]+\.(?:h|cc|inc|proto|py)")
IDENTIFIER = re.compile(r"~?[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*(?:\(\))?")
FOREIGN = ("std", "tf", "torch", "at", "c10", "MPI", "grpc", "no_sync()")  # namespaces and functions of others


def documents(root):
    yield from (path for name in ("README.md", "CONTRIBUTING.md") if (path := root / name).exists())
    yield from sorted((root / "docs").rglob("*.md"))


def pages_with_links(root):
    return sorted({*documents(root), *root.glob("*.md")})


def without_blocks(text):
    """The text of a page with its fenced blocks blanked out, so that lines keep their numbers."""
    return FENCED.sub(lambda found: "\n" * found.group().count("\n"), text)


def prose(path):
    return without_blocks(path.read_text(encoding="utf-8"))


def section_names(text):
    """The names that GitHub gives to the sections of a page, in order."""
    seen = {}
    for line in without_blocks(text).splitlines():
        found = HEADING.fullmatch(line)
        if found:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", found.group(1)).lower()
            name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            seen[name] = seen.get(name, -1) + 1
            yield f"{name}-{seen[name]}" if seen[name] else name


def broken_links(path):
    """Yields the line and the target of each link that leads to no file or section."""
    for number, line in enumerate(prose(path).splitlines(), 1):
        for target in map("".join, LINK.findall(CODE.sub("", line))):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, section = target.partition("#")
            page = path.parent / name if name else path
            if not page.exists() or (section and page.suffix == ".md" and section not in section_names(page.read_text(encoding="utf-8"))):
                yield number, target


def alternatives(name):
    """"a/{b,c}.cc" is a/b.cc and a/c.cc."""
    found = re.search(r"\{([^}]*)\}", name)
    if not found:
        return [name]
    return [each for part in found.group(1).split(",")
            for each in alternatives(name[:found.start()] + part + name[found.end():])]


class Tree:
    def __init__(self, root):
        self.root = root
        self.files, self.words = set(), set()
        for top in TOPS:
            for path in (root / top).rglob("*"):
                if path.is_file():
                    self.files.add(path.name)
                    if path.suffix in SOURCE and top != "docs":
                        self.words.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="ignore")))

    def has_path(self, path):
        return any(self.root.glob(path.rstrip("/"))) if "*" in path else (self.root / path).exists()

    def knows(self, identifier):
        return all(part.strip("~()") in self.words for part in identifier.split("::"))


def is_identifier_of_ours(text, strict):
    if not IDENTIFIER.fullmatch(text) or text.split("::")[0] in FOREIGN:
        return False
    return "::" in text or text.endswith("()") or (strict and ("_" in text or re.search(r"[a-z][A-Z]", text)))


def unknown_names(path, tree):
    strict = path.name == "architecture.md" or path.parent.name in ("internals", "decisions")
    for number, line in enumerate(prose(path).splitlines(), 1):
        for code in CODE.findall(line):
            for name in PATH.findall(code) if PATH.match(code) else []:
                yield from ((number, each) for each in alternatives(name) if not tree.has_path(each))
            if FILE.fullmatch(code) and not code.startswith(("x.", "x_")):  # `x_test.cc` beside `x.cc`
                yield from ((number, each) for each in alternatives(code) if each not in tree.files)
            elif is_identifier_of_ours(code, strict) and not tree.knows(code):
                yield number, code


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    tree = Tree(root)
    found = [(path, *each) for path in documents(root) for each in unknown_names(path, tree)]
    found += [(path, *each) for path in pages_with_links(root) for each in broken_links(path)]
    print("\n".join(f"{path.relative_to(root).as_posix()}:{number}: '{name}' does not exist"
                    for path, number, name in sorted(found))
          or "all files, functions and sections that the documents name exist")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
