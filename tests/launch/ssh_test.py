#!/usr/bin/env python3
"""`cohort run --hosts` over a real sshd: ssh_test.py COHORT TASK.

A server of this user's own, at a port that the system chooses, with keys made for the test, answers at
several addresses of the loopback interface; they stand for machines. Ends with 77 where there is no sshd,
or it cannot be started here.
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

COHORT, TASK = sys.argv[1:3]
SSHD = "/usr/sbin/sshd"
SKIPPED = 77


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIPPED)


def make_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        return probe.getsockname()[1]


class Sshd:
    """Runs while the block does."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.port = free_port()

    def __enter__(self):
        make_key(self.folder / "host_key")
        make_key(self.folder / "user_key")
        (self.folder / "user_key.pub").rename(self.folder / "authorized_keys")
        config = self.folder / "sshd_config"
        config.write_text(
            f"""Port {self.port}
ListenAddress 127.0.0.1
ListenAddress 127.0.0.2
ListenAddress 127.0.0.3
HostKey {self.folder}/host_key
AuthorizedKeysFile {self.folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
SetEnv PATH={pathlib.Path(COHORT).parent}:/usr/bin:/bin
"""
        )
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # it wants that when it is root's
        self.log = open(self.folder / "sshd.log", "w")
        self.process = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=self.log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.log.close()

    def client(self):
        """A program that calls ssh with the test's keys: its own arguments follow."""
        script = self.folder / "ssh"
        script.write_text(
            f"""#!/bin/sh
exec ssh -F none -p {self.port} -i {self.folder}/user_key -o IdentitiesOnly=yes \\
  -o UserKnownHostsFile={self.folder}/known_hosts -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR "$@"
"""
        )
        script.chmod(0o700)
        return str(script)

    def wait_until_it_answers(self):
        for _ in range(100):
            if self.process.poll() is not None:
                skip("sshd does not start here: " + (self.folder / "sshd.log").read_text())
            call = [self.client(), "-o", "BatchMode=yes", "127.0.0.2", "true"]
            answer = subprocess.run(call, capture_output=True, text=True, timeout=20)
            if answer.returncode == 0:
                return
            time.sleep(0.1)
        skip("sshd lets nobody in here: " + answer.stderr + (self.folder / "sshd.log").read_text())


def run(sshd, hosts, *program):
    command = [COHORT, "run", "--hosts", hosts, "--ssh", sshd.client(), "--grace", "1", *program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def expect(result, code, *texts):
    output = result.stdout + result.stderr
    assert result.returncode == code, (result.returncode, output)
    for text in texts:
        assert text in output, (text, output)


def main():
    if not os.access(SSHD, os.X_OK):
        skip("no " + SSHD)
    with tempfile.TemporaryDirectory() as folder, Sshd(folder) as sshd:
        sshd.wait_until_it_answers()
        hosts = "127.0.0.2:1,127.0.0.3:2"
        expect(run(sshd, hosts, TASK, "print", "RANK"), 0, "[worker:0] variable 0", "[worker:2] variable 2")
        # Every pair is dialled, with certificates of the run.
        dialled = run(sshd, hosts, COHORT, "doctor", "--timeout", "40")
        expect(dialled, 0, "[worker:0] ok   connection   worker:2", "certificates they fit")
        # A task that dies over there is explained here.
        expect(run(sshd, hosts, TASK, "exit", "7"), 7, "died after", "exited with code 7")
        # A machine that ssh does not know is named.
        expect(run(sshd, "127.0.0.2:1,no-such-host.invalid:1", TASK, "print", "RANK"), 1, "no-such-host.invalid")


if __name__ == "__main__":
    main()
