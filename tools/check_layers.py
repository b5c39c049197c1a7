#!/usr/bin/env python3
"""Checks every #include against tools/layers.txt, and where functions are defined.

usage: check_layers.py ROOT

Fails when
  - a module of src/ includes a module that its line does not name;
  - a line names a module that does not stand above it (so there are no cycles);
  - a directory of src/ has no line, or a line has no directory;
  - a public header includes anything but "cohort/..." and the standard library;
  - a header named in an "only" line is included anywhere else;
  - a header of src/ declares a function that another module defines, without a "higher" line: such a call
    reaches a module that the includes do not show;
  - something is allowed that nothing uses: the page must stay true;
  - a header of a "without" line reaches one of the standard headers that the line names.

Unit tests (*_test.cc) may include what they like.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
SOURCE = {".h", ".cc", ".inc"}
# A function at the beginning of a line: its name, and ";" where it is declared or "{" where it is defined.
FUNCTION = re.compile(r"^(?!using|typedef|friend|class|struct|enum|template|static|inline|constexpr|extern|return|namespace)"
                      r"[A-Za-z_][\w:<>,&*\s]*?[\s&*]((?:\w+::)*\w+)\((?:[^;{}]|\{\})*([;{])", re.M)
COMMENT = re.compile(r"//.*")


def parse(text):
    """Returns ({module: modules it may include}, [(third-party directories, places)], {function: its module},
    [(standard headers, public headers that must not reach them)])."""
    layers, reserved, higher, without = {}, [], {}, []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        head, colon, tail = line.partition(":")
        if not colon:
            sys.exit(f"layers.txt:{number}: expected 'module: modules', 'only directories: places' or 'higher function: module, why'")
        words = head.split()
        if words[0] == "only":
            reserved.append((set(words[1:]), tail.split()))
        elif words[0] == "higher":
            higher[words[1]] = tail.partition(",")[0].strip()
        elif words[0] == "without":
            without.append((set(words[1:]), tail.split()))
        else:
            layers[words[0]] = tail.split()
    return layers, reserved, higher, without


class Tree:
    """The source files under a root, what each includes, and which functions modules declare and define."""

    def __init__(self, root):
        self.files, self.declared, self.defined = {}, {}, {}
        for top in ("include", "src"):
            for path in sorted((root / top).rglob("*")):
                if path.suffix in SOURCE and not path.stem.endswith("_test"):
                    name = path.relative_to(root).as_posix()
                    text = path.read_text(encoding="utf-8")
                    self.files[name] = INCLUDE.findall(text)
                    if top == "src":
                        self.add_functions(name, COMMENT.sub("", text))
        self.modules = {path.name for path in (root / "src").iterdir() if path.is_dir()}

    def add_functions(self, name, text):
        for function, end in FUNCTION.findall(text):
            function = function.removeprefix("cohort::").removeprefix("internal::")
            if end == "{":
                self.defined.setdefault(function, set()).add(name.split("/")[1])
            elif name.endswith(".h"):
                self.declared[name, function] = name.split("/")[1]

    def includes(self, under):
        for name, found in self.files.items():
            if name == under or name.startswith(under + "/"):
                for quote, target in found:
                    yield name, quote, target


def check_modules(tree, layers):
    order = list(layers)
    for module in sorted(tree.modules - set(order)):
        yield f"layers.txt: src/{module} has no line"
    for module in sorted(set(order) - tree.modules):
        yield f"layers.txt: {module} has a line but src/{module} does not exist"
    for module, allowed in layers.items():
        below = order[: order.index(module)]
        for other in allowed:
            if other not in below:
                yield f"layers.txt: {module} names {other}, which does not stand above it"
        used = set()
        for name, quote, target in tree.includes(f"src/{module}"):
            directory = target.split("/")[0]
            if quote != '"' or directory in ("cohort", module):
                continue
            used.add(directory)
            if directory not in layers:
                yield f'{name}: "{target}" is in no module; includes are written from src/'
            elif directory not in allowed:
                yield f"{name}: {module} may not include {directory} ({target})"
        for other in sorted(set(allowed) & set(below) - used):
            yield f"layers.txt: {module} may include {other}, but nothing does; take it out"


def check_public(tree, reserved):
    exempt = {place for _, places in reserved for place in places}
    for name, quote, target in tree.includes("include"):
        if quote == '"' and not target.startswith("cohort/"):
            yield f'{name}: a public header includes "{target}", which is not public'
        if quote == "<" and not re.fullmatch(r"[a-z_0-9]+", target) and name not in exempt:
            yield f"{name}: a public header includes <{target}>, which is not a C++ standard header"


def check_without(tree, without):
    for refused, headers in without:
        for header in headers:
            reached, waiting = {header}, [header]
            while waiting:
                name = waiting.pop()
                for quote, target in tree.files.get(name, []):
                    if quote == "<" and target in refused:
                        yield f"{name}: {header} reaches this header and must do without <{target}>"
                    own = f"include/{target}"
                    if quote == '"' and own not in reached:
                        reached.add(own)
                        waiting.append(own)


def check_reserved(tree, reserved):
    everything = [*tree.includes("include"), *tree.includes("src")]
    for directories, places in reserved:
        users = {(name, target) for name, _, target in everything if target.split("/")[0] in directories}
        used = set()
        for name, target in sorted(users):
            home = [place for place in places if name == place or name.startswith(place + "/")]
            used.update(home)
            if not home:
                yield f"{name}: only {', '.join(places)} may include <{target}>"
        for place in sorted(set(places) - used):
            yield f"layers.txt: {place} may include {'/'.join(sorted(directories))}, but does not; take it out"


def check_definitions(tree, higher):
    used = set()
    for (name, function), module in sorted(tree.declared.items()):
        places = tree.defined.get(function, {module})
        if module in places:
            continue
        if higher.get(function) in places:
            used.add(function)
        else:
            yield f"{name}: src/{' and src/'.join(sorted(places))} defines {function}(); give layers.txt the reason"
    for function in sorted(set(higher) - used):
        yield f"layers.txt: {higher[function]} does not define {function} for a lower module; take it out"


def problems(root):
    layers, reserved, higher, without = parse((root / "tools/layers.txt").read_text(encoding="utf-8"))
    tree = Tree(root)
    return [*check_modules(tree, layers), *check_public(tree, reserved), *check_reserved(tree, reserved),
            *check_definitions(tree, higher), *check_without(tree, without)]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = problems(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "every include keeps to tools/layers.txt")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
