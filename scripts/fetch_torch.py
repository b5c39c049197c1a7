#!/usr/bin/env python3
"""Fetches the C++ part of LibTorch 2 from PyPI into build/libtorch2, where the CMake preset torch2 looks for it.

usage: fetch_torch.py [DIRECTORY]

pip says where the files are, so that its settings (index, proxy) count. An interrupted download goes on where it
stopped. Files that already lie in DIRECTORY/downloads are taken from there. When all is there it does nothing and
needs no network. Exits with 3 when a file could not be fetched, and with 1 after any other error.
"""
import hashlib
import http.client
import os
import pathlib
import platform
import re
import shutil
import ssl
import subprocess
import sys
import time
import typing
import urllib.request
import zipfile


class Wheel(typing.NamedTuple):
    package: str
    version: str
    tags: str
    size: int
    sha256: str

    @property
    def file(self):
        return f"{self.package.replace('-', '_')}-{self.version}-{self.tags}.whl"


# The one list. All wheels of LibTorch 2 for x86-64 are built with CUDA, whose two small libraries libtorch_cpu loads
# also where it computes on CPUs only.
WHEELS = [
    Wheel("torch", "2.15.0", "cp311-cp311-manylinux_2_28_x86_64", 539136850,
          "48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e"),
    Wheel("nvidia-cuda-cupti", "13.2.86", "py3-none-manylinux_2_25_x86_64", 11988600,
          "8fa29f15dd8336181f961764d9d95236fc6b931dd0c8fcf8cd70aab0c310b586"),
    Wheel("nvidia-cuda-runtime", "13.2.86", "py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64", 2323576,
          "3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0"),
]

# What is unpacked: LibTorch's own headers, libtorch_cpu and what that loads, and the licences.
KEPT = re.compile(r"torch/include/(ATen|c10|caffe2|torch)/"
                  r"|torch/lib/lib(torch_cpu|c10|gomp)\.so"
                  r"|nvidia/cu\d+/lib/lib(cudart|cupti)\.so"
                  r"|[^/]+\.dist-info/licenses/")
UNPACKED_MB = 500
ATTEMPTS = 5  # in a row that bring no further byte
UNREACHABLE = 3

# Where a file is may be asked of pip only in a log, whose wording changes. So any address with the file's name counts.
PIP = ["python3", "-m", "pip", "index", "versions", "-vv", "--retries", "2", "--timeout", "30"]


def say(text):
    print(f"fetch_torch: {text}", file=sys.stderr, flush=True)


def fail(text, code=1):
    say(text)
    sys.exit(code)


def address(wheel, downloads):
    done = subprocess.run([*PIP, wheel.package], capture_output=True, text=True, check=False)
    found = re.search(rf"(https?|file)://[^\s#]*/{re.escape(wheel.file)}", done.stdout + done.stderr)
    if found is None:
        errors = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
        files = ", ".join(other.file for other in WHEELS if not (downloads / other.file).exists())
        fail(f"pip did not find {wheel.package} {wheel.version}: is the package index reachable? Without network, put "
             f"these files into {downloads}: {files}. pip said: {' '.join(errors) or 'nothing'}", UNREACHABLE)
    return found[0]


def certificates():
    """Those that pip trusts, if the environment names them, and else the system's."""
    return ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))


def show_progress(wheel, size):
    if sys.stderr.isatty():
        end = "\n" if size >= wheel.size else ""
        text = f"\rfetch_torch: {wheel.package}: {size / 1e6:.0f} of {wheel.size / 1e6:.0f} MB"
        print(text, end=end, file=sys.stderr, flush=True)


def fetch_rest(wheel, url, part):
    """Appends what `part` lacks. A server that cannot begin in the middle sends the whole file, which replaces it."""
    offset = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={offset}-"} if offset else {})
    with urllib.request.urlopen(request, timeout=60, context=certificates()) as answer:
        with open(part, "ab" if getattr(answer, "status", None) == 206 else "wb") as file:
            while block := answer.read(1 << 20):
                file.write(block)
                show_progress(wheel, file.tell())


def fetch(wheel, url, part):
    """Fetches until the file has its size. Each attempt goes on where the one before stopped."""
    attempts_left = ATTEMPTS
    size = part.stat().st_size if part.exists() else 0
    while size < wheel.size:
        error = "the server sent too little"
        try:
            fetch_rest(wheel, url, part)
        except (OSError, http.client.HTTPException) as reason:
            error = reason
        before, size = size, part.stat().st_size if part.exists() else 0
        if size > before:
            attempts_left = ATTEMPTS
        elif attempts_left > 1:
            attempts_left -= 1
            time.sleep(1)
        else:
            fail(f"{wheel.file} could not be fetched, {size / 1e6:.0f} of {wheel.size / 1e6:.0f} MB are there: {error}. "
                 "Run it again to go on", UNREACHABLE)


def check(wheel, path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != wheel.sha256:
        path.unlink()
        fail(f"{wheel.file} is not the file that was expected, and was removed: expected SHA-256 {wheel.sha256}, found "
             f"{digest.hexdigest()}. Run it again to fetch it anew")


def download(wheel, downloads):
    """The path of a wheel that has the expected bytes."""
    path = downloads / wheel.file
    if not path.exists():
        part = path.with_name(path.name + ".part")
        fetch(wheel, address(wheel, downloads), part)
        check(wheel, part)
        part.rename(path)
    else:
        check(wheel, path)
    return path


def unpack(path, directory):
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if KEPT.match(name) and not name.endswith("/"):
                archive.extract(name, directory)


def check_room(directory, missing_bytes):
    free = shutil.disk_usage(directory).free
    needed = missing_bytes + UNPACKED_MB * 10**6
    if free < needed:
        fail(f"{directory} has {free / 1e6:.0f} MB free; {needed / 1e6:.0f} MB are needed until the downloads are unpacked")


def missing_bytes(downloads):
    paths = [(wheel, downloads / wheel.file) for wheel in WHEELS]
    parts = [(wheel, path.with_name(path.name + ".part")) for wheel, path in paths if not path.exists()]
    return sum(wheel.size - (part.stat().st_size if part.exists() else 0) for wheel, part in parts)


def fill(directory):
    downloads = directory / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    missing = missing_bytes(downloads)
    say(f"LibTorch {WHEELS[0].version} from PyPI: {missing / 1e6:.0f} MB to download, {UNPACKED_MB} MB in {directory}")
    check_room(directory, missing)
    for path in [download(wheel, downloads) for wheel in WHEELS]:
        unpack(path, directory)
    shutil.rmtree(downloads)


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        sys.exit(__doc__)
    if platform.machine() != "x86_64":
        fail(f"the list has LibTorch for x86_64 only, and this machine is {platform.machine()}. Add the directory of a "
             "LibTorch for it to CMAKE_PREFIX_PATH instead")
    directory = pathlib.Path(*sys.argv[1:] or [pathlib.Path(__file__).resolve().parent.parent / "build/libtorch2"])
    # Names what was unpacked, so that another list is fetched.
    complete = directory / "complete"
    text = "".join(f"{wheel.sha256}  {wheel.file}\n" for wheel in WHEELS)
    if complete.exists() and complete.read_text(encoding="utf-8") == text:
        return
    complete.unlink(missing_ok=True)
    for old in ("torch", "nvidia"):
        shutil.rmtree(directory / old, ignore_errors=True)
    fill(directory)
    complete.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        fail("interrupted. Run it again to go on", 130)
