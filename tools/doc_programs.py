#!/usr/bin/env python3
"""Turns the C++ blocks of the documents into programs, so that a test can build and run them.

usage: doc_programs.py extract OUT PAGE...   write OUT/<name>.cc and OUT/<name>.out, print the names
       doc_programs.py check ROOT PAGE...    fail unless every C++ block is such a program, and every
                                             `directory/file` that a page names exists under ROOT
       doc_programs.py run PROGRAM EXPECTED [JOB=COUNT...]
                                             run it and compare all that it prints; with jobs, run it
                                             as each task of such a cluster (TF_CONFIG says which)
                                             and compare what the chief, or else worker 0, prints

A program is a ```cpp block under a line  <!-- program: name -->  and is followed by a ``` block with
its output. Under  <!-- program: name, output varies -->  there is no such block and the program only
has to succeed. A block without main() is the body of one, with <cohort/cohort.h> and <iostream>
included and namespace cohort in use.
"""
import contextlib
import dataclasses
import difflib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

MARKER = re.compile(r"<!-- program: ([a-z0-9_]+)(, output varies)? -->")
PATH = re.compile(r"`((?:include|src|tests|tools|cmake|docs|examples|scripts|benchmarks)/[\w./-]*)`")
FENCE = re.compile(r"(```+)(.*)")
JOB = re.compile(r"([a-z]+)=([1-9][0-9]*)")
BODY = """#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {{
{}
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
    output: str | None


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
        has_output = following is not None and following.adjoins and following.language in ("", "text")
        if bool(marker[2]) == has_output:
            problems.append(f"{path}:{block.line}: program {marker[1]} " + (
                "has an output block although its output varies" if has_output else
                "is not followed by a block with its output"))
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


@contextlib.contextmanager
def free_addresses(count):
    """Addresses that this process holds until the end. A server that sets SO_REUSEADDR may listen there."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield [f"localhost:{each.getsockname()[1]}" for each in sockets]


def run_tasks(program, cluster, directory):
    """Runs the program as each task. Returns (exit code, output) of the chief, or else of worker 0."""
    first = ("chief" if "chief" in cluster else "worker", 0)
    tasks = {}
    try:
        for job, index in ((job, index) for job in cluster for index in range(len(cluster[job]))):
            place = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
            tasks[job, index] = subprocess.Popen(
                [program], stdout=subprocess.PIPE if (job, index) == first else sys.stderr, text=True,
                cwd=directory, env={**os.environ, "TF_CONFIG": place})
        output, code = tasks[first].communicate()[0], tasks.pop(first).returncode
        for (job, index), task in tasks.items():
            if first[0] == "chief" or code != 0:  # the others only serve
                task.terminate()
            if task.wait(30) not in (0, -signal.SIGTERM):
                code = code or task.returncode
                output += f"({job} {index} ended with {task.returncode})\n"
        return code, output
    finally:
        for task in tasks.values():
            task.kill()


def run(program, expected, jobs):
    command = pathlib.Path(program).resolve()
    with tempfile.TemporaryDirectory() as directory:  # programs may leave files behind
        if jobs:
            with free_addresses(sum(jobs.values())) as addresses:
                cluster = {job: [addresses.pop() for _ in range(count)] for job, count in jobs.items()}
                code, output = run_tasks(command, cluster, directory)
        else:
            done = subprocess.run([command], stdout=subprocess.PIPE, text=True, cwd=directory)
            code, output = done.returncode, done.stdout
    if code != 0:
        sys.exit(f"{program} ended with {code} after printing:\n{output}")
    expected = pathlib.Path(expected)
    if not expected.exists():
        return
    wanted = expected.read_text(encoding="utf-8")
    if output != wanted:
        difference = difflib.unified_diff(wanted.splitlines(), output.splitlines(),
                                          "the page says", "the program prints", lineterm="")
        sys.exit("\n".join(difference) or "the last line's end differs")


def main():
    arguments = sys.argv[1:]
    if len(arguments) >= 3 and arguments[0] == "extract":
        extract(arguments[1], arguments[2:])
    elif len(arguments) >= 3 and arguments[0] == "check":
        check(arguments[1], arguments[2:])
    elif len(arguments) >= 3 and arguments[0] == "run" and all(map(JOB.fullmatch, arguments[3:])):
        jobs = {found[1]: int(found[2]) for found in map(JOB.fullmatch, arguments[3:])}
        run(arguments[1], arguments[2], jobs)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
