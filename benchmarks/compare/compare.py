#!/usr/bin/env python3
"""Runs Cohort beside every peer that is installed, on the same work in one run.

usage: compare.py PROGRAMS OUT [PART...]   PROGRAMS: the folder of the benchmark programs
       compare.py --read TEXT OUT          what a program printed before, instead of running it

Writes OUT/compare.md (a table), OUT/compare.json and OUT/compare.svg (a picture). A part is one of
those below; all of them by default. Peers that are not installed are left out by the programs, which
say so.
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
PAIR = re.compile(r"(?P<name>\S.*?)\s{2,}(?P<ours>[\d.]+) us\s+(?P<theirs>[\d.]+) us\b")
# "  packs is 3.2 times Open MPI  best ...", under a title.
TIMES = re.compile(r"\s+(?P<ours>\S+)\s+is\s+(?P<times>[\d.]+) times (?P<peer>\S.*?)\s{2,}")


@dataclasses.dataclass
class Figure:
    part: str
    name: str
    peer: str
    times: float  # how many times as quick Cohort is


def read_figures(part, peer, text):
    figures, title = [], ""
    for line in text.splitlines():
        if found := PAIR.match(line):
            if float(found["ours"]) > 0:
                figures.append(Figure(part, found["name"], peer, float(found["theirs"]) / float(found["ours"])))
        elif found := TIMES.match(line):
            figures.append(Figure(part, f"{title}: {found['ours']}", found["peer"], float(found["times"])))
        elif line and not line.startswith(" "):
            title = line.strip()
    return figures


def run_part(programs, name):
    program, arguments, peer = PARTS[name]
    path = pathlib.Path(programs) / program
    if not path.exists():
        print(f"{name}: left out, {path} was not built", file=sys.stderr)
        return []
    print(f"{name} ...", file=sys.stderr, flush=True)
    done = subprocess.run([path, *arguments], text=True, capture_output=True)
    if done.returncode != 0:
        print(f"{name}: {program} ended with {done.returncode}: {done.stderr[-400:]}", file=sys.stderr)
    return read_figures(name, peer, done.stdout)


def markdown(figures):
    rows = [f"| {f.part} | {f.name} | {f.peer} | {f.times:.2f} |" for f in figures]
    return "\n".join(["| part | work | beside | times as quick |", "|---|---|---|---|", *rows, ""])


def picture(figures):
    """A bar for each figure, from 1 (as quick) to the right or the left, on a logarithmic scale."""
    row, middle, unit = 22, 560, 60  # a bar of `unit` is a factor of two
    shapes = [f'<line x1="{middle}" y1="0" x2="{middle}" y2="{row * len(figures)}" stroke="#888"/>']
    for i, figure in enumerate(figures):
        length = unit * math.log2(max(figure.times, 1e-3))
        left, y = middle + min(length, 0), row * i + 4
        colour = "#2a7f4f" if figure.times >= 1 else "#b5483a"
        label = html.escape(f"{figure.name} / {figure.peer}")
        shapes.append(f'<text x="{middle - 250}" y="{y + 11}" text-anchor="end">{label}</text>')
        shapes.append(f'<rect x="{left:.1f}" y="{y}" width="{abs(length):.1f}" height="14" fill="{colour}"/>')
        shapes.append(f'<text x="{middle + max(length, 0) + 6:.1f}" y="{y + 11}">{figure.times:.2f}</text>')
    size = f'width="1100" height="{row * len(figures) + 8}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">\n' + "\n".join(
        shapes
    ) + "\n</svg>\n"


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "--read":
        figures = read_figures("read", "peer", pathlib.Path(arguments[1]).read_text())
        out = arguments[2]
    elif len(arguments) >= 2 and set(arguments[2:]) <= set(PARTS):
        out = arguments[1]
        figures = [f for name in arguments[2:] or PARTS for f in run_part(arguments[0], name)]
    else:
        sys.exit(__doc__ + f"\nparts: {', '.join(PARTS)}")
    if not figures:
        sys.exit("nothing was compared: no program was built, or none printed a figure")
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compare.md").write_text(markdown(figures))
    (folder / "compare.json").write_text(json.dumps([dataclasses.asdict(f) for f in figures], indent=1) + "\n")
    (folder / "compare.svg").write_text(picture(figures))
    print(markdown(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
