#!/usr/bin/env python3
"""Prints a header or a page of the documents as Doxygen 1.9 can read it. docs/Doxyfile names this filter.

usage: doxygen_filter.py FILE, in the directory of the project

In a header, plain comments become comments that Doxygen shows. In a page, headings get names, so that links to
sections of other pages find them; links to what is no page of the site become text.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from check_docs import CODE, FENCED, HEADING, section_names  # noqa: E402

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
# Doxygen 1.9 does not find the scope of specialisations of std.
OF_STD = re.compile(r"^template <[^\n]*>\nstruct std::.*?;\n(?:};\n)?", re.M | re.DOTALL)


def header(text):
    text = OF_STD.sub("", text)
    shown = lambda found: found.group(1) + "///" + re.sub(r"<(?=[a-z_]+>)", r"\\<", found.group(2))
    return re.sub(r"^( *)//((?: .*)?)$", shown, text, flags=re.M)


def in_tree(path):
    return path.resolve().relative_to(pathlib.Path.cwd())


def is_of_site(path):
    return path.suffix == ".md" and in_tree(path).parts[0] != "examples"


def label(path, section):
    page = in_tree(path).with_suffix("")
    return re.sub(r"[^A-Za-z0-9-]", "_", f"{page}-{section}")


def page(path, text):
    names = iter(section_names(text))

    def link(found):
        words, target = found.groups()
        name, _, section = target.partition("#")
        to = path.parent / name if name else path
        if re.match(r"[a-z]+:", target) or (is_of_site(to) and not section):
            return found.group()
        return f"[{words}](#{label(to, section)})" if section and is_of_site(to) else words

    def outside_code(line):
        parts = re.split(f"({CODE.pattern.replace('(', '(?:', 1)})", line)
        return "".join(part if part.startswith("`") else LINK.sub(link, part) for part in parts)

    def line(text):
        if not HEADING.fullmatch(text):
            return outside_code(text)
        name = next(names)
        return text if text.startswith("# ") else f"{text} {{#{label(path, name)}}}"

    blocks = re.split(f"({FENCED.pattern})", text, flags=re.DOTALL)
    return "".join(block if block.startswith("```") else "\n".join(map(line, block.split("\n"))) for block in blocks)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = pathlib.Path(sys.argv[1])
    text = path.read_text(encoding="utf-8")
    print(page(path, text) if path.suffix == ".md" else header(text), end="")


if __name__ == "__main__":
    main()
