#!/usr/bin/env python3
"""Turns the C++ blocks of the documents into programs, so that a test can build and run them, and the examples
in the comments of the public headers into sources, so that a test can compile them.

usage: doc_programs.py extract OUT PAGE...   write OUT/<name>.cc and OUT/<name>.out, print the names
       doc_programs.py check ROOT PAGE...    fail unless every C++ block is such a program, and every
                                             `directory/file` that a page names exists under ROOT
       doc_programs.py run PROGRAM EXPECTED [COMMAND]
                                             run it and compare all that it prints
       doc_programs.py headers OUT HEADER... write the examples of the headers: OUT/examples.cc, and
                                             OUT/torch_examples.cc those of torch*.h

A program is a ```cpp block under a line  <!-- program: name -->  and is followed by a ``` block with
its output. In a ```console block the first line says how the program is started,
$ cohort run -n 4 ./train, and the other lines are the output of its tasks, which may come in any
order; COMMAND is the path of the cohort command. Under  <!-- program: name, output varies -->  there is no such block and the program only
has to succeed. A block without main() is the body of one, with <cohort/cohort.h> and <iostream>
included and namespace cohort in use.

An example in a header is a block of comment lines whose text has three or more blanks before it. It ends at the first line
that is not such a comment; an empty comment line inside braces belongs to it. It becomes the body of a function with the parameters in EXAMPLES, whose names it may
declare anew. A block that begins with a class, a template or the definition of a function is compiled at
namespace scope instead.
"""
import dataclasses
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

MARKER = re.compile(r"<!-- program: ([a-z0-9_]+)(, output varies)? -->")
START = re.compile(r"\$ cohort (run\b[^\n]*) \./\w+\n")
PATH = re.compile(r"`((?:include|src|tests|tools|cmake|docs|examples|scripts|benchmarks)/[\w./-]*)`")
FENCE = re.compile(r"(```+)(.*)")
BODY = """#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {{
{}
}}
"""

EXAMPLE_LINE = re.compile(r"\s*//(   .*)")
EMPTY_COMMENT = re.compile(r"\s*//()")
NAMESPACE_SCOPE = re.compile(r"\s*(?:(?:class|struct|template|enum)\b|[\w:]+ \w+\([^;]*\) \{)")
EXAMPLES = """{includes}

#include <iostream>
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wreturn-type"

using namespace cohort;

#define PARAMETERS                                                                                    \\
  Strategy &strategy, data::Dataset &dataset, nn::Sequential &model, optim::Sgd &optimizer, Tensor &x, \\
      Tensor &y, Tensor &loss, Variable &w, Graph &graph, Session &session, ClusterSpec &cluster,     \\
      const std::string &directory, int task, Trainer &trainer, ClusterCoordinator &coordinator

namespace {{  // what is not used costs no code
{examples}
}}  // namespace
"""
BODY_EXAMPLE = """
[[maybe_unused]] auto example_{number}(PARAMETERS) {{
{{
#line {line} "{path}"
{text}
}}
}}
"""
SCOPE_EXAMPLE = """
namespace example_{number} {{
#line {line} "{path}"
{text}
}}
"""


@dataclasses.dataclass
class Block:
    line: int
    language: str
    text: str
    before: str  # the last line above it that is not blank
    adjoins: bool  # whether that line is the end of another block


@dataclasses.dataclass
class Program:
    name: str
    source: str
    output: str | None  # with the line that starts it, for several tasks


def blocks(text):
    lines, before, adjoins, index = text.splitlines(), "", False, 0
    while index < len(lines):
        fence = FENCE.fullmatch(lines[index].rstrip())
        if fence:
            start = index + 1
            index = start
            while index < len(lines) and lines[index].rstrip() != fence[1]:
                index += 1
            body = "".join(line + "\n" for line in lines[start:index])
            yield Block(start, fence[2].strip(), body, before, adjoins)
            before, adjoins = "", True
        elif lines[index].strip():
            before, adjoins = lines[index].strip(), False
        index += 1


def read_page(path):
    """Returns (programs, problems) of one page."""
    programs, problems = [], []
    found = list(blocks(path.read_text(encoding="utf-8")))
    for block, following in zip(found, [*found[1:], None]):
        if block.language not in ("cpp", "c++"):
            continue
        marker = MARKER.fullmatch(block.before)
        if not marker:
            problems.append(f"{path}:{block.line}: a C++ block without <!-- program: name --> above it")
            continue
        has_output = following is not None and following.adjoins and following.language in ("", "text", "console")
        if bool(marker[2]) == has_output:
            problems.append(f"{path}:{block.line}: program {marker[1]} " + (
                "has an output block although its output varies" if has_output else
                "is not followed by a block with its output"))
        if has_output and following.language == "console" and not START.match(following.text):
            problems.append(f"{path}:{following.line}: a console block does not begin with '$ cohort run ... ./program'")
        source = block.text if re.search(r"\bint main\(", block.text) else BODY.format(block.text)
        programs.append(Program(marker[1], source, following.text if has_output else None))
    return programs, problems


def read_pages(paths):
    programs, problems = [], []
    for path in paths:
        page_programs, page_problems = read_page(pathlib.Path(path))
        programs += page_programs
        problems += page_problems
    names = [program.name for program in programs]
    problems += [f"two programs are called {name}" for name in sorted(set(names)) if names.count(name) > 1]
    return programs, problems


def write_if_changed(path, text):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def extract(out, paths):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    programs = {program.name: program for program in read_pages(paths)[0]}
    for program in programs.values():
        write_if_changed(out / f"{program.name}.cc", program.source)
        if program.output is not None:
            write_if_changed(out / f"{program.name}.out", program.output)
        else:
            (out / f"{program.name}.out").unlink(missing_ok=True)
    print(";".join(programs), end="")


def missing_files(root, paths):
    for path in paths:
        for name in PATH.findall(pathlib.Path(path).read_text(encoding="utf-8")):
            if not (root / name).exists():
                yield f"{path}: there is no {name}"


def check(root, paths):
    programs, problems = read_pages(paths)
    problems += missing_files(pathlib.Path(root), paths)
    print("\n".join(problems) or f"{len(programs)} programs in {len(paths)} pages")
    sys.exit(bool(problems))


def run(program, expected, command="cohort"):
    expected = pathlib.Path(expected)
    wanted = expected.read_text(encoding="utf-8") if expected.exists() else None
    start = START.match(wanted or "")
    started = [pathlib.Path(program).resolve()]
    if start:
        started = [command, *start[1].split(), *started]
        wanted = wanted[start.end():]
    with tempfile.TemporaryDirectory() as directory:  # programs may leave files behind
        done = subprocess.run(started, stdout=subprocess.PIPE, text=True, cwd=directory)
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode} after printing:\n{done.stdout}")
    if wanted is None:
        return
    # Errors name the places in the source by their whole paths.
    output = done.stdout.replace(f"{pathlib.Path(__file__).resolve().parent.parent}/", "")
    wanted, printed = wanted.splitlines(keepends=True), output.splitlines(keepends=True)
    if start:  # the tasks print at the same time
        wanted, printed = sorted(wanted), sorted(printed)
    if printed != wanted:
        difference = difflib.unified_diff([line.rstrip("\n") for line in wanted],
                                          [line.rstrip("\n") for line in printed],
                                          "the page says", "the program prints", lineterm="")
        sys.exit("\n".join(difference) or "the last line's end differs")


def examples_of(path):
    """Yields (line, text) of each example in the comments of a header."""
    lines = []
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        text = "".join(lines)
        in_braces = text.count("{") > text.count("}")
        match = EXAMPLE_LINE.fullmatch(line) or (in_braces and EMPTY_COMMENT.fullmatch(line))
        if match:
            lines.append(match[1])
        elif lines:
            yield number - len(lines), "\n".join(lines)
            lines = []


def example_source(main_header, paths):
    """Returns a source with all examples of these headers."""
    headers, examples = [main_header], []
    for path in paths:
        for line, text in examples_of(path):
            form = SCOPE_EXAMPLE if NAMESPACE_SCOPE.match(text) else BODY_EXAMPLE
            examples.append(form.format(number=len(examples) + 1, line=line, path=path, text=text))
            headers.append(f"cohort/{path.name}")
    includes = "\n".join(f"#include <{header}>" for header in dict.fromkeys(headers))
    return EXAMPLES.format(includes=includes, examples="".join(examples))


def write_examples(out, paths):
    out, paths = pathlib.Path(out), [pathlib.Path(path) for path in paths]
    out.mkdir(parents=True, exist_ok=True)
    torch = [path for path in paths if path.name.startswith("torch")]
    others = [path for path in paths if path not in torch]
    (out / "examples.cc").write_text(example_source("cohort/cohort.h", others), encoding="utf-8")
    (out / "torch_examples.cc").write_text(example_source("cohort/torch.h", torch), encoding="utf-8")


def main():
    arguments = sys.argv[1:]
    if len(arguments) >= 3 and arguments[0] == "extract":
        extract(arguments[1], arguments[2:])
    elif len(arguments) >= 3 and arguments[0] == "check":
        check(arguments[1], arguments[2:])
    elif len(arguments) in (3, 4) and arguments[0] == "run":
        run(*arguments[1:])
    elif len(arguments) >= 3 and arguments[0] == "headers":
        write_examples(arguments[1], arguments[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
