#!/usr/bin/env python3
"""Checks that the source and the documents use none of the words and phrases of tools/words.txt.

usage: check_words.py ROOT

Fails where one occurs, and where tools/words.txt still allows one that is gone.
"""
import pathlib
import re
import sys

COMMENT = re.compile(r"(?<!:)//(.*)")
# Texts that the compiler joins, as "one " "text".
TEXTS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')
# The plain way to say it in an error text.
PLAIN = re.compile(r"\bthere (is|are) no\b|\bno longer\b")
CODE_OR_QUOTE = re.compile(r'```.*?```|`[^`\n]*`|"[^"\n]*"', re.DOTALL)


def parse(text):
    """Returns ({word: what to write}, {identifier: ...}, {phrase: ...}, {word or "phrases": places})."""
    sections = {"words:": {}, "identifiers:": {}, "phrases:": {}, "not yet:": {}}
    current = None
    for line in text.splitlines():
        line = line.split("#")[0].rstrip()
        if line in sections:
            current = sections[line]
        elif line:
            head, _, tail = line.partition(": ")
            current[head] = tail
    words, identifiers, phrases, allowed = sections.values()
    return words, identifiers, phrases, {word: places.split() for word, places in allowed.items()}


def pattern_of(word):
    if word.endswith("*"):
        return re.compile(r"\b" + re.escape(word[:-1]) + r"(?=[A-Z])")
    if word[0].isupper():
        return re.compile(rf"{word}(?![a-z])")
    return re.compile(rf"(?<![A-Za-z]){word}s?(?![a-z])|(?<=[a-z]){word.capitalize()}(?![a-z])")


def source_files(root):
    for top in ("include", "src", "proto"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cc", ".inc", ".proto") and not path.name.endswith("_test.cc"):
                yield path


def test_files(root):
    for top in ("include", "src", "tests"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cc") and (top == "tests" or path.name.endswith("_test.cc")):
                yield path


def documents(root):
    yield from sorted((root / "docs").rglob("*.md"))
    yield from (path for name in ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md") if (path := root / name).exists())


def comments(path):
    """The text of a file with everything but comments blanked out, so that lines keep their numbers."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        found = COMMENT.search(line)
        lines.append(CODE_OR_QUOTE.sub("", found.group(1)) if found else "")
    return "\n".join(lines)


def code(path):
    """The text of a file without what is in quotation marks and comments."""
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', path.read_text(encoding="utf-8").replace("'\"'", ""))
    return COMMENT.sub("", text)


def texts(path):
    """The string literals of a file, with everything else blanked out as in comments()."""
    code = COMMENT.sub("", path.read_text(encoding="utf-8")).replace("'\"'", "")
    kept, end = [], 0
    for found in TEXTS.finditer(code):
        kept.append(";" + "\n" * code.count("\n", end, found.start()))
        kept.append(PLAIN.sub("", re.sub(r'"[^\S\n]*(\n*)\s*"', r"\1", found.group()).strip('"')))
        end = found.end()
    return "".join(kept)


def prose(path):
    blank = lambda found: "\n" * found.group().count("\n")
    return CODE_OR_QUOTE.sub(blank, path.read_text(encoding="utf-8"))


def occurrences(root, words, identifiers, phrases):
    """Yields (word or "phrases", file, line, what to write)."""
    def lines_with(pattern, text):
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, found.group()

    patterns = {word: pattern_of(word) for word in words}
    phrase = re.compile(r"\b(" + "|".join(phrases).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
    for path in (*source_files(root), *test_files(root)):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        for word, pattern in patterns.items():
            lines = [line for line, _ in lines_with(pattern, text)] + [1] * bool(pattern.search(path.name))
            yield from ((word, name, line, f"'{word}' is not our word; write {words[word]}") for line in lines)
    for path in source_files(root):
        name, text = path.relative_to(root).as_posix(), code(path)
        for identifier, better in identifiers.items():
            for line, found in lines_with(re.compile(rf"\b(?:{identifier})\b"), text):
                yield identifier, name, line, f"'{found}' says too little; write {better}"
    checked = [(path, comments(path)) for path in source_files(root)]
    checked += [(path, texts(path)) for path in source_files(root)]
    checked += [(path, prose(path)) for path in documents(root)]
    for path, text in checked:
        for line, found in lines_with(phrase, text):
            name = path.relative_to(root).as_posix()
            yield "phrases", name, line, f"say it without '{' '.join(found.split())}' (tools/words.txt)"


def problems(root):
    *refused, allowed = parse((root / "tools/words.txt").read_text(encoding="utf-8"))
    used = set()
    for word, name, line, what in occurrences(root, *refused):
        place = next((place for place in allowed.get(word, ())
                      if name == place or name.startswith(place + "/")), None)
        if place is None:
            yield f"{name}:{line}: {what}"
        else:
            used.add((word, place))
    for word, places in allowed.items():
        for place in places:
            if (word, place) not in used:
                yield f"words.txt: {word} is gone from {place}; take it out of 'not yet'"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every file keeps to tools/words.txt")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
