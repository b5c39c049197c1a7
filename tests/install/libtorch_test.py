"""Tests of cmake/CohortTorch.cmake with stand-ins of LibTorch: which one is taken, and what is refused and why.

usage: libtorch_test.py ROOT COMPILER INSTALLED VERSION

INSTALLED is where Cohort is installed that was built with LibTorch VERSION.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, COMPILER, INSTALLED, VERSION = pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:5]
del sys.argv[1:5]

C10 = """#include <string>
namespace c10 {
struct Allocator;
struct SourceLocation { const char* file; };
void SetCPUAllocator(Allocator*, unsigned char) {}
struct Error { Error(SourceLocation, std::string); };
Error::Error(SourceLocation, std::string) {}
}
"""
TORCH_CPU = """#include <string>
namespace at {
struct Tensor {};
std::string show_config() { return "Build settings: TORCH_VERSION=%s, USE_CUDA=0"; }
void set_num_threads(int) {}
}
namespace torch::nn::init { at::Tensor zeros_(at::Tensor x) { return x; } }
"""
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
include({root}/cmake/CohortTorch.cmake)
cohort_find_torch(found {arguments})
get_target_property(headers found INTERFACE_INCLUDE_DIRECTORIES)
get_target_property(libraries found INTERFACE_LINK_LIBRARIES)
message("found ${{COHORT_TORCH_VERSION}}, headers ${{headers}}, libraries ${{libraries}}")
"""
CONSUMER = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
{before}
find_package(cohort REQUIRED {components})
"""


class LibTorch(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name).resolve()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def compile(self, name, text, *options):
        source = self.write(f"sources/{name}.cc", text)
        library = self.root / name
        library.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([COMPILER, "-std=c++17", "-shared", "-fPIC", *options, source, "-o", library], check=True)

    def headers(self, name, version):
        numbers = zip(("MAJOR", "MINOR", "PATCH"), version.split("."))
        self.write(f"{name}/include/torch/csrc/api/include/torch/version.h",
                   "".join(f"#define TORCH_VERSION_{part} {number}\n" for part, number in numbers))
        self.write(f"{name}/include/ATen/ATen.h", "")
        self.write(f"{name}/include/fmt/format.h", "")
        return self.root / name

    def libtorch(self, name, version, torch_cpu=TORCH_CPU, options=()):
        """A stand-in of LibTorch under that name, as downloads of LibTorch are laid out."""
        self.compile(f"{name}/lib/libc10.so", C10, *options)
        self.compile(f"{name}/lib/libtorch_cpu.so", torch_cpu % version, *options)
        return self.headers(name, version)

    def configure(self, text, *prefixes, fresh=True):
        self.write("CMakeLists.txt", text)
        prefix = ";".join(map(str, prefixes))
        done = subprocess.run(["cmake", *(["--fresh"] if fresh else []), "-S", self.root, "-B", self.root / "build",
                               f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DCMAKE_PREFIX_PATH={prefix}"],
                              capture_output=True, text=True, timeout=60, check=False)
        # CMake breaks the lines of messages.
        return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)

    def find(self, *prefixes, arguments="", fresh=True):
        return self.configure(PROJECT.format(root=ROOT, arguments=arguments), *prefixes, fresh=fresh)

    def assert_fails(self, outcome, *texts):
        code, output = outcome
        self.assertNotEqual(code, 0, output)
        for text in texts:
            self.assertIn(text, output)

    def assert_finds(self, outcome, version, directory):
        code, output = outcome
        self.assertEqual(code, 0, output)
        self.assertIn(f"found {version}, ", output)
        self.assertIn(f"libraries {directory}/lib/libtorch_cpu.so;{directory}/lib/libc10.so", output)


class Finding(LibTorch):
    def test_the_one_of_the_prefix_path_is_found_without_headers_of_others(self):
        torch = self.libtorch("torch", "2.99.1")
        outcome = self.find(torch)
        self.assert_finds(outcome, "2.99.1", torch)
        shown = pathlib.Path(re.search(r"headers ([^;]+);", outcome[1])[1])
        self.assertEqual((shown / "ATen").resolve(), torch / "include/ATen")
        self.assertFalse((shown / "fmt").exists())

    def test_the_recorded_one_is_found_and_the_prefix_path_goes_before(self):
        recorded, other = self.libtorch("recorded", "2.99.1"), self.libtorch("other", "2.99.2")
        arguments = f"INCLUDE {recorded}/include LIBRARIES {recorded}/lib/libtorch_cpu.so {recorded}/lib/libc10.so"
        self.assert_finds(self.find(arguments=arguments), "2.99.1", recorded)
        self.assert_finds(self.find(other, arguments=arguments), "2.99.2", other)

    def test_one_of_another_version_is_refused_and_forgotten(self):
        old, new = self.libtorch("old", "2.9.1"), self.libtorch("new", "2.99.1")
        arguments = "VERSION 2.99 OWNER Somebody_expects"
        self.assert_fails(self.find(old, arguments=arguments), "Somebody_expects LibTorch 2.99; found 2.9.1 in",
                          "Put the directory of LibTorch 2.99 first in CMAKE_PREFIX_PATH")
        self.assert_finds(self.find(new, arguments=arguments, fresh=False), "2.99.1", new)

    def test_one_that_is_too_old_is_refused(self):
        self.assert_fails(self.find(self.libtorch("torch", "1.12.1")),
                          "Cohort needs LibTorch 1.13 or later; found 1.12.1 in")

    def test_headers_without_a_version_are_refused(self):
        torch = self.libtorch("torch", "2.99.1")
        (torch / "include/torch/csrc/api/include/torch/version.h").unlink()
        self.assert_fails(self.find(torch), "has no version.h that says which LibTorch this is", "1.13 or later")

    def test_headers_of_one_and_libraries_of_another_are_refused(self):
        torch = self.libtorch("torch", "2.99.1")
        headers = self.headers("headers", "2.98.0")
        self.assert_fails(self.find(headers, torch), "Two LibTorch were found: headers of 2.98.0 in",
                          "libtorch_cpu.so of 2.99.1", "Set CMAKE_PREFIX_PATH to the directory that has both")

    def test_one_of_the_old_abi_is_refused(self):
        torch = self.libtorch("torch", "2.0.1", options=["-D_GLIBCXX_USE_CXX11_ABI=0"])
        self.assert_fails(self.find(torch), "libc10.so was built with the old ABI of libstdc++", "Expected the new one",
                          "scripts/setup.sh --torch2")

    def test_one_without_a_needed_symbol_is_refused(self):
        torch = self.libtorch("torch", "2.99.1", TORCH_CPU.replace("set_num_threads", "set_no_threads"))
        self.assert_fails(self.find(torch), "cannot be linked with", "at::set_num_threads(int)", "Expected a complete LibTorch")

    def test_one_that_does_not_start_is_refused(self):
        self.compile("torch/lib/libmissing.so", "int missing() { return 1; }")
        needing = TORCH_CPU + "int missing(); int needs() { return missing(); }\n"
        torch = self.libtorch("torch", "2.99.1", needing, ["-Wl,--no-as-needed", f"-L{self.root}/torch/lib", "-lmissing",
                                                             f"-Wl,-rpath-link,{self.root}/torch/lib"])
        (torch / "lib/libmissing.so").rename(torch / "lib/libmissing.so.away")
        self.assert_fails(self.find(torch), "libmissing.so")

    def test_other_packages_are_not_looked_for_in_it(self):
        torch = self.libtorch("torch", "2.99.1")
        self.write("torch/include/google/protobuf/service.h", "")
        text = PROJECT.format(root=ROOT, arguments="") + ("cohort_search_outside_torch()\nfind_path(PROTOBUF "
                                                          "google/protobuf/service.h)\nmessage(\"its ${PROTOBUF}\")\n")
        code, output = self.configure(text, torch)
        self.assertEqual(code, 0, output)
        self.assertNotIn(f"its {torch}", output)
        self.assertIn("its /usr", output)


class Installed(LibTorch):
    def consumer(self, *prefixes, components="", before=""):
        return self.configure(CONSUMER.format(before=before, components=components), INSTALLED, *prefixes)

    def test_a_program_that_finds_another_version_is_refused(self):
        other = self.libtorch("other", "2.99.1")
        self.assert_fails(self.consumer(other, components="COMPONENTS torch"),
                          f"was built with LibTorch {VERSION}; found 2.99.1 in {other}/include")

    def test_a_program_that_links_another_version_besides_is_refused(self):
        other = self.libtorch("other", "2.99.1")
        target = (f"add_library(torch_cpu SHARED IMPORTED)\nset_target_properties(torch_cpu PROPERTIES "
                  f"INTERFACE_INCLUDE_DIRECTORIES {other}/include IMPORTED_LOCATION {other}/lib/libtorch_cpu.so)")
        for components in ("", "COMPONENTS torch"):
            self.assert_fails(self.consumer(components=components, before=target),
                              f"Two LibTorch in one program: Cohort was built with {VERSION}", "also uses 2.99.1 in",
                              "Let find_package(Torch) find")

    def test_a_program_without_another_one_is_configured(self):
        for components in ("", "COMPONENTS torch"):
            code, output = self.consumer(components=components)
            self.assertEqual(code, 0, output)


if __name__ == "__main__":
    unittest.main()
