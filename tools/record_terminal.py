#!/usr/bin/env python3
"""Draws what a command prints on a terminal as a picture (SVG), line by line at the times it prints them.

usage: record_terminal.py PICTURE DIRECTORY COMMAND...

Runs each COMMAND (one argument, split by the shell's rules) in DIRECTORY, as if it were typed there. Two
seconds after the last line the picture begins again. Viewers without animation show all lines.
Fails if a command fails. README.md shows the picture that

    tools/record_terminal.py docs/run.svg DIRECTORY "./train" "cohort run -n 4 ./train"

made, where DIRECTORY has the README's first program as ./train.
"""
import html
import os
import pathlib
import pty
import re
import shlex
import subprocess
import sys
import time

COLUMNS, LINE, LEFT, TOP = 88, 19, 16, 44
CHARACTER = 8.43  # the width of one at 14 pixels, in the fonts below
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea"}
STYLE = re.compile(r"\x1b\[([\d;]*)m")
OTHER = re.compile(r"\x1b\[[\d;?]*[A-Za-z]|\x1b\][^\x07]*\x07")  # moves and erasures
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" xml:space="preserve" role="img" aria-label="{label}">
<title>{label}</title>
<style>
text {{ font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #e6edf3; white-space: pre; }}
{animations}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/><circle cx="60" cy="18" r="6" fill="#28c840"/>
{lines}
</svg>
"""


def record(directory, command):
    """Runs a command on a terminal. Returns [(seconds since its start, line)]."""
    master, slave = pty.openpty()
    started = time.monotonic()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(shlex.split(command), cwd=directory, stdin=subprocess.DEVNULL, stdout=slave,
                               stderr=slave, env=environment)
    os.close(slave)
    lines, rest = [], b""
    while True:
        try:
            read = os.read(master, 65536)
        except OSError:  # what Linux says at the end of a terminal
            read = b""
        if not read:
            break
        *whole, rest = (rest + read).split(b"\n")
        lines += [(time.monotonic() - started, line.decode().rstrip("\r")) for line in whole]
    os.close(master)
    if process.wait() != 0:
        sys.exit(f"'{command}' ended with {process.returncode}:\n" + "\n".join(line for _, line in lines))
    return lines


def spans(line):
    """The line as SVG, with its colours."""
    line = OTHER.sub("", STYLE.sub(lambda found: f"\0{found[1]}\1", line).split("\r")[-1])
    drawn, colour = [], None
    for part in re.split("(\0[^\1]*\1)", line):
        if part.startswith("\0"):
            colour = next((COLOURS[code] for code in part[1:-1].split(";") if code in COLOURS), None)
        elif part:
            fill = f' fill="{colour}"' if colour else ""
            drawn.append(f"<tspan{fill}>{html.escape(part)}</tspan>")
    return "".join(drawn)


def draw(label, lines):
    """`lines`: [(seconds, SVG)]."""
    total = lines[-1][0] + 2
    animations, drawn = [], []
    for number, (seconds, content) in enumerate(lines):
        share = 100 * seconds / total
        if share > 0:
            animations.append(f"@keyframes l{number} {{ 0%, {share:.1f}% {{ opacity: 0 }} {share + 0.1:.1f}%, 100% {{ opacity: 1 }} }}\n"
                              f".l{number} {{ animation: l{number} {total:.1f}s infinite }}")
        drawn.append(f'<text class="l{number}" x="{LEFT}" y="{TOP + LINE * number + 14}">{content}</text>')
    return FRAME.format(label=html.escape(label), animations="\n".join(animations), lines="\n".join(drawn),
                        width=round(2 * LEFT + COLUMNS * CHARACTER), height=TOP + LINE * len(lines) + 16)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    picture, directory, commands = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    lines, now = [], 0.0
    for command in commands:
        lines.append((now, f'<tspan fill="#7ee787">$</tspan> {html.escape(command)}'))
        printed = record(directory, command)
        lines += [(now + seconds, spans(line)) for seconds, line in printed if OTHER.sub("", STYLE.sub("", line)).strip()]
        now = lines[-1][0] + 1
    picture.write_text(draw("; ".join(commands), lines), encoding="utf-8")


if __name__ == "__main__":
    main()
