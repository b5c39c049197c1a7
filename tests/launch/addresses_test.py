#!/usr/bin/env python3
"""Machines that `cohort join` a run from addresses of their own: addresses_test.py COHORT TASK.

Two addresses of the loopback interface stand for them.
"""
import subprocess
import sys

COHORT, TASK = sys.argv[1:3]
ADDRESSES = ["127.0.0.2", "127.0.0.3"]


def how_to_join(launcher):
    """The words behind `cohort join` that the launcher prints."""
    for line in launcher.stderr:
        words = line.split()
        if words[:2] == ["cohort", "join"]:
            return words[2:]
    raise AssertionError("the launcher does not say how to join")


def run(*program):
    command = [COHORT, "run", "-n", "3", "--nodes", "2", "--listen", "127.0.0.1", "--grace", "1", *program]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    words = how_to_join(launcher)
    machines = [
        subprocess.Popen([COHORT, "join", "--address", address, *words], stderr=subprocess.DEVNULL)
        for address in ADDRESSES
    ]
    output, errors = launcher.communicate(timeout=90)
    codes = [machine.wait(20) for machine in machines]
    assert launcher.returncode == 0 and codes == [0, 0], (launcher.returncode, codes, output, errors)
    return output + errors


def main():
    # The first two tasks are on the first machine, and each machine counts its own.
    lines = run(TASK, "print", "LOCAL_RANK")
    for text in ["[worker:0] variable 0", "[worker:1] variable 1", "[worker:2] variable 0"]:
        assert text in lines, (text, lines)
    cluster = run(TASK, "print", "TF_CONFIG")
    for address in ADDRESSES:
        assert f'"{address}:' in cluster, (address, cluster)
    # They reach each other there, with certificates that each machine made for itself.
    dialled = run(COHORT, "doctor", "--timeout", "40")
    for text in ["[worker:0] ok   connection   worker:2", "[worker:2] ok   connection   worker:1"]:
        assert text in dialled, (text, dialled)


if __name__ == "__main__":
    main()
