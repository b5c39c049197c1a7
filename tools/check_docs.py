#!/usr/bin/env python3
"""Checks that the files and functions that documents and comments name exist, and that links lead somewhere.

usage: check_docs.py ROOT

Looks at the words in `code` of README.md, CONTRIBUTING.md and the pages under docs/:
  - a path that begins with a directory of the project must exist; {a,b}.cc stands for two files, * for any name;
  - a bare file name such as `ring.cc` must be that of some file;
  - an identifier that is qualified (Group::leave) or called (leave()) must occur in the source. In
    docs/architecture.md, docs/internals/ and docs/decisions/, which describe the source, every
    identifier must;
  - an identifier beside a file must occur in that file: `file`, `identifier`; `identifier` in `file`;
    (`identifier`, `file`); and in a table the cell before the one with the file.
Looks at the comments of the source: a file that one names must be that of some file, or end the path of one.
What stands in quotation marks is an example.
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
# Identifiers and files that belong together.
CHAIN = re.compile(r"\(?`[^`\n]+`(?:(?:,| in)\s+`[^`\n]+`)*")
FILES_CELL = re.compile(r" (?:`[^`]*/[^`]*\.\w+`(?:, )?)+ ")
COMMENTED = {".h", ".cc", ".inc", ".proto"}
COMMENT = re.compile(r"(?<!:)//(.*)")
FILE_IN_COMMENT = re.compile(r"(?<![\w/.<-])(?:[\w.-]+/)*[\w{},]+\.(?:h|cc|inc|proto|py|sh|cmake|md)\b(?!\()")
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
        self.paths, self.endings, self.words = set(), set(), set()
        for top in TOPS:
            for path in (root / top).rglob("*"):
                if path.is_file():
                    self.add(path)
                    if path.suffix in SOURCE and top != "docs":
                        self.words.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="ignore")))

        for path in root.glob("*.*"):
            self.add(path)

    def add(self, path):
        parts = path.relative_to(self.root).parts
        self.paths.add(path)
        self.endings.update("/".join(parts[i:]) for i in range(len(parts)))

    def has_path(self, path):
        return any(self.root.glob(path.rstrip("/"))) if "*" in path else (self.root / path).exists()

    def knows(self, identifier, words=None):
        return all(part.strip("~()") in (words or self.words) for part in identifier.split("::"))

    def knows_in(self, identifier, files):
        found = [path for name in files for each in alternatives(name) for path in self.root.glob(each)]
        texts = (path.read_text(encoding="utf-8", errors="ignore") for path in found)
        return not found or self.knows(identifier, {word for text in texts for word in re.findall(r"\w+", text)})


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
                yield from ((number, each) for each in alternatives(code) if each not in tree.endings)
            elif is_identifier_of_ours(code, strict) and not tree.knows(code):
                yield number, code


def is_file(code):
    return PATH.fullmatch(code) and pathlib.PurePath(code).suffix in SOURCE


def beside_files(text):
    """Yields the place of each identifier that a page puts beside files, the identifier and these files."""
    for chain in CHAIN.finditer(text):
        is_before_file = chain.group().startswith("(")
        file, waiting = None, []
        for code in CODE.finditer(chain.group()):
            follows_in = chain.group()[:code.start()].endswith("in ")
            if is_file(code.group(1)):
                if follows_in or is_before_file:
                    yield from ((*each, [code.group(1)]) for each in waiting)
                file, waiting = None if follows_in else code.group(1), []
            elif file and not chain.group()[code.end():].lstrip().startswith("in"):
                yield chain.start() + code.start(), code.group(1), [file]
            else:
                waiting.append((chain.start() + code.start(), code.group(1)))
    for row in re.finditer(r"^\|.*\|$", text, re.MULTILINE):
        cells = row.group().split("|")
        for functions, files in zip(cells, cells[1:]):
            if FILES_CELL.fullmatch(files):
                yield from ((row.start(), each, CODE.findall(files)) for each in CODE.findall(functions))


def misplaced_names(path, tree):
    text = prose(path)
    for place, code, files in beside_files(text):
        if IDENTIFIER.fullmatch(code) and not tree.knows_in(code, files):
            yield text.count("\n", 0, place) + 1, f"{code} in {' and '.join(files)}"


def unknown_files_in_comments(path, tree):
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), 1):
        comment = COMMENT.search(line)
        for name in FILE_IN_COMMENT.findall(re.sub(r'"[^"]*"', "", comment.group(1))) if comment else []:
            for each in alternatives(name):
                if each not in tree.endings and not (path.parent / each).exists():
                    yield number, each


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    tree = Tree(root)
    found = [(path, *each) for path in documents(root) for each in unknown_names(path, tree)]
    found += [(path, *each) for path in documents(root) for each in misplaced_names(path, tree)]
    found += [(path, *each) for path in tree.paths if path.suffix in COMMENTED for each in unknown_files_in_comments(path, tree)]
    found += [(path, *each) for path in pages_with_links(root) for each in broken_links(path)]
    print("\n".join(f"{path.relative_to(root).as_posix()}:{number}: '{name}' does not exist"
                    for path, number, name in sorted(found))
          or "all files, functions and sections that the documents name exist")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
