#!/usr/bin/env python3
"""Runs Cohort beside every peer that is installed, on the same work in one run.

usage: compare.py PROGRAMS OUT [PART...]   PROGRAMS: the directory of the benchmark programs
       compare.py --read TEXT OUT          what a program printed before, instead of running it

Writes OUT/compare.md (a table), OUT/compare.json and OUT/compare.svg (a picture). A part is one of
those below; all of them by default. What is left out, because a peer is not installed or a program
did not end well, is named below the table.
"""
import dataclasses
import html
import json
import math
import pathlib
import re
import subprocess
import sys

# name: the program, its arguments, and who runs beside Cohort where a line does not say.
PARTS = {
    "kernels": ("bench_foundation", [], "LibTorch"),
    "input": ("bench_data", ["pipelines"], "torch DataLoader"),
    "replicas": ("bench_strategies", ["ddp"], "PyTorch DDP"),
    "workers": ("bench_multi_worker", [], "PyTorch DDP"),
    "all-reduce, 2 processes": ("bench_collectives", ["host", "2"], ""),
    "all-reduce, 4 processes": ("bench_collectives", ["host", "4"], ""),
    "push and pull": ("bench_cluster", ["push"], "ZeroMQ"),
}
# "name   12.3 us   45.6 us ...": ours, theirs.
PAIR = re.compile(r"(?P<name>\S.*?)\s+(?P<ours>[\d.]+) us\s+(?P<theirs>[\d.]+) us\b")
# "  packs is 3.2 times Open MPI  best ...", under a title.
TIMES = re.compile(r"\s+(?P<ours>\S+)\s+is\s+(?P<times>[\d.]+) times (?P<peer>\S.*?)\s{2,}")
# "MLP, beside one process", "map.batch / hand loop (0.7)": a name that says who runs beside Cohort.
NAMED = re.compile(r"(?P<work>.+?)(?:, beside | / | over )(?P<peer>[^/]+?)(?: \([\d.x]+\))?$")
LEFT_OUT = ": left out, "
LIMIT = 1200  # seconds that a program may take


@dataclasses.dataclass
class Figure:
    part: str
    name: str
    peer: str
    times: float  # how many times as quick Cohort is


@dataclasses.dataclass
class Results:
    figures: list = dataclasses.field(default_factory=list)
    left_out: list = dataclasses.field(default_factory=list)  # a line for each

    def add(self, other):
        self.figures += other.figures
        self.left_out += [line for line in other.left_out if line not in self.left_out]


def pair_figure(part, name, peer, times):
    if named := NAMED.match(name):
        name, peer = named["work"], named["peer"]
    return Figure(part, name, peer, times)


def read_results(part, peer, text):
    results, title = Results(), ""
    for line in text.splitlines():
        if LEFT_OUT in line:
            results.left_out.append(line.strip())
        elif found := PAIR.match(line):
            if float(found["ours"]) > 0:
                times = float(found["theirs"]) / float(found["ours"])
                results.figures.append(pair_figure(part, found["name"], peer, times))
        elif found := TIMES.match(line):
            figure = Figure(part, f"{title}: {found['ours']}", found["peer"], float(found["times"]))
            results.figures.append(figure)
        elif line and not line.startswith(" "):
            title = line.strip()
    return results


def run_program(path, arguments):
    """What it printed, and what went wrong, or nothing."""
    if not path.exists():
        return "", f"{path} was not built"
    try:
        done = subprocess.run([path, *arguments], text=True, capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(), f"{path.name} was not done after {LIMIT} s"
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        return done.stdout, " ".join([f"{path.name} ended with {done.returncode}", *last])
    return done.stdout, ""


def run_part(programs, name):
    program, arguments, peer = PARTS[name]
    print(f"{name} ...", file=sys.stderr, flush=True)
    text, problem = run_program(pathlib.Path(programs) / program, arguments)
    results = read_results(name, peer, text)
    if problem:
        results.left_out.append(f"{name}{LEFT_OUT}{problem}")
    return results


def markdown(results):
    rows = [f"| {f.part} | {f.name} | {f.peer} | {f.times:.2f} |" for f in results.figures]
    notes = [f"- {line}" for line in results.left_out]
    table = ["| part | work | beside | times as quick |", "|---|---|---|---|", *rows]
    return "\n".join([*table, "", *notes, ""] if notes else [*table, ""])


def picture(figures):
    """A bar for each figure, from 1 (as quick) to the right or the left, on a logarithmic scale."""
    row, unit, letter = 22, 60, 6.2  # a bar of `unit` is a factor of two
    lengths = [unit * math.log2(max(figure.times, 1e-3)) for figure in figures]
    labels = [f"{figure.name} / {figure.peer}" for figure in figures]
    names = letter * max(map(len, labels)) + 10  # where these end, and bars to the left may begin
    middle = names + 10 - min(0, *lengths)
    width, height = middle + max(0, *lengths) + 80, row * len(figures) + 8
    shapes = [f'<line x1="{middle:.0f}" y1="0" x2="{middle:.0f}" y2="{height - 8}" stroke="#888"/>']
    for i, (figure, label, length) in enumerate(zip(figures, labels, lengths)):
        left, y = middle + min(length, 0), row * i + 4
        colour = "#2a7f4f" if figure.times >= 1 else "#b5483a"
        shapes.append(f'<text x="{names:.0f}" y="{y + 11}" text-anchor="end">{html.escape(label)}</text>')
        shapes.append(f'<rect x="{left:.1f}" y="{y}" width="{abs(length):.1f}" height="14" fill="{colour}"/>')
        shapes.append(f'<text x="{middle + max(length, 0) + 6:.1f}" y="{y + 11}">{figure.times:.2f}</text>')
    size = f'width="{width:.0f}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">\n' + "\n".join(
        shapes
    ) + "\n</svg>\n"


def results_for(arguments):
    """The results, and the directory that they go to."""
    if len(arguments) == 3 and arguments[0] == "--read":
        return read_results("read", "peer", pathlib.Path(arguments[1]).read_text()), arguments[2]
    if len(arguments) < 2 or not set(arguments[2:]) <= set(PARTS):
        sys.exit(__doc__ + f"\nparts: {', '.join(PARTS)}")
    results = Results()
    for name in arguments[2:] or PARTS:
        results.add(run_part(arguments[0], name))
    return results, arguments[1]


def main(arguments):
    results, out = results_for(arguments)
    if not results.figures:
        sys.exit("\n".join(["nothing was compared: no program was built, or none printed a figure", *results.left_out]))
    directory = pathlib.Path(out)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "compare.md").write_text(markdown(results))
    (directory / "compare.json").write_text(json.dumps(dataclasses.asdict(results), indent=1) + "\n")
    (directory / "compare.svg").write_text(picture(results.figures))
    print(markdown(results))


if __name__ == "__main__":
    main(sys.argv[1:])
