"""Runs a program as a job step of a real Slurm of three nodes on this host.

usage: slurm_test.py slurm_task
"""
import contextlib
import getpass
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

NODES = ["n08", "n09", "n10"]
CLUSTER = ("ClusterSpec({'ps': ['n08:8888'], "
           "'worker': ['n08:8889', 'n08:8890', 'n09:8888', 'n10:8888']})")
EXPECTED = [
    f"n08 ps 0 grpc://n08:8888 0,1 {CLUSTER}",
    f"n08 worker 0 grpc://n08:8889 2,3 {CLUSTER}",
    f"n08 worker 1 grpc://n08:8890 4,5 {CLUSTER}",
    f"n09 worker 2 grpc://n09:8888 0,1 {CLUSTER}",
    f"n10 worker 3 grpc://n10:8888 0,1 {CLUSTER}",
]


def free_ports(count):
    """Ports that nobody uses, chosen by the system."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def configuration(directory):
    host, user = socket.gethostname().split(".")[0], getpass.getuser()
    controller, *nodes = free_ports(1 + len(NODES))
    lines = [
        "ClusterName=cohort", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={controller}",
        f"SlurmUser={user}", f"SlurmdUser={user}",
        "AuthType=auth/munge", f"AuthInfo=socket={directory}/munge.socket",
        f"SlurmctldPidFile={directory}/slurmctld.pid", f"SlurmdPidFile={directory}/slurmd-%n.pid",
        f"StateSaveLocation={directory}/state", f"SlurmdSpoolDir={directory}/spool-%n",
        "ProctrackType=proctrack/pgid", "TaskPlugin=task/none", "SwitchType=switch/none",
        "MpiDefault=none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core",
        # Nodes with more processors than this host has.
        "SlurmdParameters=config_overrides",
        "PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8",
    ]
    lines += [f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4"
              for name, port in zip(NODES, nodes)]
    return "\n".join(lines) + "\n"


class Slurm:
    """The daemons, from entering to leaving."""

    def __init__(self, directory):
        self.directory = directory
        self.daemons = []
        self.environment = {**os.environ, "SLURM_CONF": f"{directory}/slurm.conf"}

    def __enter__(self):
        (self.directory / "state").mkdir()
        (self.directory / "slurm.conf").write_text(configuration(self.directory))
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        munge = {name: f"--{name}={self.directory}/munge.{name.split('-')[0]}"
                 for name in ("socket", "key-file", "pid-file", "log-file", "seed-file")}
        self.start("munged", "--foreground", "--force", "--num-threads=1", *munge.values())
        self.start("slurmctld", "-D", "-c")
        for node in NODES:
            self.start("slurmd", "-D", "-N", node)
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def start(self, name, *arguments):
        with open(self.directory / "daemons.log", "a") as log:
            self.daemons.append(subprocess.Popen([shutil.which(name), *arguments], stdout=log,
                                                 stderr=log, env=self.environment))

    def run(self, *command):
        return subprocess.run(command, capture_output=True, text=True, timeout=40,
                              env=self.environment)

    def wait_for_nodes(self):
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            if self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == str(len(NODES)):
                return
            time.sleep(0.1)
        sys.exit("Slurm's nodes did not come up:\n" + (self.directory / "daemons.log").read_text())


def main():
    program, = sys.argv[1:]
    os.environ["PATH"] += ":/usr/sbin"
    with tempfile.TemporaryDirectory(prefix="cohort_slurm_") as directory:
        with Slurm(pathlib.Path(directory)) as slurm:
            slurm.wait_for_nodes()
            done = slurm.run("srun", f"--nodes={len(NODES)}", f"--ntasks={len(EXPECTED)}", program)
    found = sorted(done.stdout.splitlines())
    if done.returncode != 0 or found != EXPECTED:
        sys.exit("\n".join(["expected:", *EXPECTED, "found:", *found, done.stderr]))
    print("five tasks on three nodes found their places")


if __name__ == "__main__":
    main()
