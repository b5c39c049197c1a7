"""Tests of the tools in tools/ and of the scripts: each check must fail when it should.

usage: tools_test.py ROOT
"""
import hashlib
import http.server
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

ROOT = pathlib.Path(sys.argv.pop()).resolve()


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text, mode=0o644):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def run_tool(self, *command, **options):
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, **options)
        return done.returncode, done.stdout + done.stderr


class Source(Scratch):
    def check(self):
        return self.run_tool(ROOT / "tools/check_source.py", self.root)

    def assert_fails(self, text):
        code, output = self.check()
        self.assertEqual(code, 1, output)
        self.assertIn(text, output)

    def test_a_bad_index_with_the_code_of_the_end_fails(self):
        self.write("src/ops/rows.cc", 'raise(\n    Code::OutOfRange, "[{}] index {}");\n')
        self.assert_fails("src/ops/rows.cc:1: OutOfRange is the end of data")

    def test_iterators_and_comparisons_pass(self):
        self.write("src/data/iterator.cc", 'raise(Code::OutOfRange, "[Iterator] no more elements");\n')
        self.write("src/a/b.cc", "if (status.code == Code::OutOfRange) return;\n")
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_an_error_or_a_message_of_the_log_without_its_operation_fails(self):
        for text in ('raise(Code::NotFound,\n  "no file {}", path);', 'throw Error(Code::NotFound, "no file");'):
            self.write("src/a/b.cc", text)
            self.assert_fails("src/a/b.cc:1: the text of an error begins with its operation")
        for text in ('log_info("no file {}", path);', 'log_at(level, "no file {}", path);'):
            self.write("src/a/b.cc", text)
            self.assert_fails("src/a/b.cc:1: a message of the log begins with its component")

    def test_texts_with_their_operation_or_made_elsewhere_pass(self):
        self.write("src/a/b.cc", 'raise(Code::NotFound, "[{}] no file", op);\nraise(code, "{}; try again", text);\n'
                                 'log_at(level, "[Open] no file");\nlog_info("{}", text);\n')
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_a_wait_of_its_own_fails(self):
        for wait in ("sched_yield();", "std::this_thread::sleep_for(time);", "__builtin_ia32_pause();"):
            self.write("src/a/b.cc", f"void f() {{\n  {wait}\n}}\n")
            self.assert_fails("src/a/b.cc:2: only src/base/waiting.h spins")

    def test_waits_of_the_waiting_module_and_of_tests_pass(self):
        self.write("src/base/waiting.h", "inline void yield_core() { sched_yield(); }\n")
        self.write("src/a/b.cc", "internal::pause_for(time);\n")
        self.write("src/a/b_test.cc", "sched_yield();\n")
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_a_lock_that_the_check_does_not_see_fails(self):
        for lock in ("std::mutex mutex_;", "std::mutex mutex_;\n  std::condition_variable_any ended_;",
                     "std::shared_mutex mutex_;"):
            self.write("src/a/b.h", f"class A {{\n  {lock}\n}};\n")
            self.assert_fails("src/a/b.h:2: the check for locks sees no std::mutex")

    def test_locks_of_conditions_of_the_mutex_module_and_of_tests_pass(self):
        self.write("src/a/a.h", "std::mutex mutex_;\nstd::condition_variable changed_;\n")
        self.write("src/a/a.cc", "void A::wait(std::unique_lock<std::mutex>& lock) {}\n")
        self.write("src/a/b.h", "Mutex mutex_;\nTurn turn_;\n")
        self.write("src/base/mutex.h", "std::mutex mutex_;\n")
        self.write("src/a/b_test.cc", "std::mutex mutex_;\n")
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_an_op_that_is_compared_by_name_fails(self):
        self.write("src/graph/a.cc", 'if (node.op->name == "Cond") return;\n')
        self.assert_fails("src/graph/a.cc:1: ask for a trait of the op")

    def test_an_op_that_is_declared_again_fails(self):
        self.write("src/graph/a.cc", "extern const OpDef kCond;\n")
        self.assert_fails("src/graph/a.cc:1: src/ops/all_ops.h declares every op")

    def test_an_op_that_is_compared_in_ops_passes(self):
        self.write("src/ops/a.cc", 'if (op.name == "Cond") return;\n')
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_a_stage_that_is_compared_by_name_fails(self):
        for question in ('node.kind() == "Shuffle"', 'node->kind() != "Cache"', 'stage->kind() ==\n    "Generator"'):
            self.write("src/data/a.cc", f"\nif ({question}) return;\n")
            self.assert_fails("src/data/a.cc:2: ask the stage of a dataset a question about itself")

    def test_a_stage_that_is_compared_in_tests_and_other_kinds_pass(self):
        self.write("src/data/a_test.cc", 'EXPECT_TRUE(node.kind() == "Shuffle");\n')
        self.write("src/cluster/b.cc", 'if (link->connection()->kind() == "in-process") return;\n')
        self.write("src/data/a.cc", 'std::string_view kind() const override { return "Shuffle"; }\n')
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_a_message_without_its_component_fails(self):
        for text in ('log_info("goes on");', 'log_warning(\n    "{} goes on", name);'):
            self.write("src/a/b.cc", text)
            self.assert_fails("src/a/b.cc:1: a message of the log begins with its component")

    def test_messages_with_their_component_pass(self):
        self.write("src/a/b.cc", 'log_info("[Trainer] goes on");\nlog_error("{}", text);\n')
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_two_files_of_one_name_fail(self):
        self.write("src/a/rows.cc", "")
        self.write("src/b/rows.cc", "")
        self.assert_fails("src/a/rows.cc and src/b/rows.cc have the same name")

    def test_tests_and_headers_may_have_the_name_of_a_file(self):
        self.write("src/a/rows.cc", "")
        self.write("src/a/rows.h", "")
        self.write("src/a/rows_test.cc", "")
        self.write("src/b/rows_test.cc", "")
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_a_random_device_fails(self):
        self.write("src/a/b.cc", "std::random_device device;\n")
        self.assert_fails("src/a/b.cc:1: ask random_number()")


class Words(Scratch):
    """A tree without private words, and what happens when one comes back."""

    def setUp(self):
        super().setUp()
        self.page("folder: src/old")
        self.write("src/old/a.cc", "std::string folder;\n")
        self.write("src/new/b.cc", "std::string directory;  // of the run\n")

    def page(self, not_yet):
        self.write("tools/words.txt", "words:\nfolder: directory\nRollCall: Bootstrap\nkMost*: kMax*\n"
                   "identifiers:\nway|own_(id|name): kind, local_...\nphrases:\nnobody: no task\n(is|are) no [a-z]+: does not\nnot yet:\n" + not_yet + "\n")

    def check(self):
        return self.run_tool(ROOT / "tools/check_words.py", self.root)

    def assert_fails(self, text):
        code, output = self.check()
        self.assertEqual(code, 1, output)
        self.assertIn(text, output)

    def test_a_tree_that_keeps_to_the_page_passes(self):
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_a_private_word_fails_wherever_it_stands_in_an_identifier(self):
        for code in ("int folder_;", "void make_folder();", "class RunFolder;", "// two folders"):
            self.write("src/new/b.cc", f"int a;\n{code}\n")
            self.assert_fails("src/new/b.cc:2: 'folder' is not our word; write directory")
        self.write("src/new/b.cc", "WorkerRollCall call;\n")
        self.assert_fails("src/new/b.cc:1: 'RollCall' is not our word")
        self.write("src/new/b.cc", "constexpr int kMostTasks = 3;\n")
        self.assert_fails("src/new/b.cc:1: 'kMost*' is not our word")

    def test_the_words_are_checked_in_proto(self):
        self.write("proto/new/b.proto", "// a folder\nint32 a = 1;  // nobody\n")
        self.assert_fails("proto/new/b.proto:1: 'folder' is not our word")
        self.assert_fails("proto/new/b.proto:2: say it without 'nobody'")

    def test_other_words_pass(self):
        self.write("src/new/b.cc", "int scaffolder, kMostly;\n")
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_a_private_word_fails_in_tests(self):
        for name in ("src/new/b_test.cc", "tests/c/d.h"):
            self.write(name, "int a;\nint folder;\n")
            self.assert_fails(f"{name}:2: 'folder' is not our word")
            self.write(name, "int a;\n")

    def test_a_private_word_fails_in_the_name_of_a_file(self):
        self.write("src/new/make_folder_test.cc", "int a;\n")
        self.assert_fails("src/new/make_folder_test.cc:1: 'folder' is not our word")

    def test_an_identifier_that_is_refused_may_be_a_word_of_comments_texts_and_tests(self):
        self.write("src/new/b.cc", 'int a;  // on the way\nsay("in a way");\nint by_way, own_ids;\n')
        self.write("src/new/b_test.cc", "int way;\n")
        self.assertEqual(self.check()[0], 0, self.check()[1])
        self.write("src/new/b.cc", 'say("in // a way");\nint way;\nint own_id;\n')
        self.assert_fails("src/new/b.cc:2: 'way' says too little; write kind, local_...")
        self.assert_fails("src/new/b.cc:3: 'own_id' says too little")

    def test_an_odd_phrase_in_a_comment_fails_unless_it_is_quoted(self):
        self.write("src/new/b.cc", 'int b;\nint a;  // which Nobody reads\n')
        self.assert_fails("src/new/b.cc:2: say it without 'Nobody'")
        self.write("src/new/b.cc", 'int a;  // says "nobody"\n')
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_an_odd_phrase_in_a_text_fails_also_where_the_compiler_joins_texts(self):
        self.write("src/new/b.cc", 'int a;\nsay("\\"nobody\\" came");\n')
        self.assert_fails("src/new/b.cc:2: say it without 'nobody'")
        self.write("src/new/b.cc", "int a;\nsay('\"', \"it is no \"\n    \"server\");\n")
        self.assert_fails("src/new/b.cc:2: say it without 'is no server'")

    def test_plain_texts_and_the_names_of_other_texts_pass(self):
        self.write("src/new/b.cc", 'say("there is no file");\nsay("it is no", longer);\n'
                   'say("it is no longer there");\nint nobody;\n')
        self.write("src/new/b_test.cc", 'say("nobody");\n')
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_an_odd_phrase_in_a_document_fails_also_over_a_line_end(self):
        self.write("docs/a.md", "```\nnobody\n```\nAn endpoint is\nno server.\n")
        self.assert_fails("docs/a.md:4: say it without 'is no server'")
        self.write("docs/a.md", "")
        self.write("docs/b/c.md", "nobody\n")
        self.assert_fails("docs/b/c.md:1: say it without 'nobody'")

    def test_a_permission_that_is_not_needed_fails(self):
        self.page("folder: src/old src/new")
        self.assert_fails("folder is gone from src/new")


class Documents(Scratch):
    """Documents that name what exists, and what happens when they do not."""

    def setUp(self):
        super().setUp()
        self.write("src/a/ring.cc", "void Group::leave() {}\nvoid send_all();\n")
        self.write("docs/other.md", "")
        self.names("`src/a/ring.cc`, `ring.{cc,cc}`, `src/*/ring.cc`, `Group::leave`, `send_all()`, [more](other.md)")

    def names(self, text, name="docs/architecture.md"):
        self.write(name, f"{text}\n")

    def check(self):
        return self.run_tool(ROOT / "tools/check_docs.py", self.root)

    def test_documents_that_name_what_exists_pass(self):
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_what_does_not_exist_is_named(self):
        for name in ("src/a/tree.cc", "tree.cc", "Group::enter", "receive_all()", "receive_all", "src/b/*.cc"):
            for page in ("docs/architecture.md", "docs/decisions/a.md"):
                self.names(f"first\n`{name}`", page)
                code, output = self.check()
                self.assertEqual(code, 1, output)
                self.assertIn(f"{page}:2: '{name}' does not exist", output)
                self.names("", page)

    def test_a_link_to_no_file_or_section_is_named_on_every_page(self):
        self.write("docs/other.md", "# Title\n## The `code`, and *more*\n## Twice\n## Twice\n```\n# in a block\n```\n")
        good = ("other.md", "other.md#the-code-and-more", "other.md#twice-1", "#here", "https://nowhere.example/a#b",
                "../src/a/ring.cc#L1")
        for page in ("docs/architecture.md", "docs/decisions/a.md", "CHANGELOG.md"):
            for target in good:
                self.names(f"# Here\n[a]({target if page.startswith('docs/arch') else '#here'})", page)
                self.assertEqual(self.check()[0], 0, self.check()[1])
            for target in ("nothing.md", "#nothing", "other.md#twice-2", "other.md#in-a-block"):
                for link in (f"[a]({target})", f"[a]: {target}", f'<img src="{target}">'):
                    self.names(f"# Here\n{link}", page)
                    self.assertIn(f":2: '{target}' does not exist", self.check()[1])
            self.names("", page)

    def test_pages_in_directories_are_checked_and_those_about_the_source_strictly(self):
        self.names("`receive_all`", "docs/internals/a.md")
        self.assertIn("docs/internals/a.md:1: 'receive_all' does not exist", self.check()[1])
        self.names("[up](../other.md)", "docs/internals/a.md")
        self.names("`receive_all`", "docs/more/b.md")
        self.assertEqual(self.check()[0], 0, self.check()[1])
        self.names("`receive_all()`", "docs/more/b.md")
        self.assertIn("docs/more/b.md:1: 'receive_all()' does not exist", self.check()[1])

    def test_a_function_beside_a_file_must_be_in_that_file(self):
        self.write("src/a/tree.cc", "void descend();\n")
        for good in ("`src/a/ring.cc`, `Group::leave`, `send_all`, and `descend` in `src/a/tree.cc`, `send_all` in `src/a/ring.cc`",
                     "(`descend`,\n`src/a/tree.cc`)", "`descend`, then `src/a/ring.cc`", "`src/a/{ring,tree}.cc`, `descend`",
                     "| a | `descend`, `send_all` | `src/a/tree.cc`, `src/a/ring.cc` |"):
            self.names(good)
            self.assertEqual(self.check()[0], 0, self.check()[1])
        for bad in ("`src/a/ring.cc`, `Group::leave`, `descend`", "`descend` in `src/a/ring.cc`", "(`descend`, `src/a/ring.cc`)",
                    "`src/a/tree.cc`, `descend` in `src/a/ring.cc`", "| `descend` | `src/a/ring.cc` |"):
            self.names(f"first\n{bad}")
            self.assertIn("docs/architecture.md:2: 'descend in src/a/ring.cc' does not exist", self.check()[1])

    def test_a_file_that_a_comment_names_must_exist(self):
        self.write("src/a/tree.h", '// See ring.cc, src/a/ring.cc and a/{ring,tree}.cc; "gone.cc:1" is an example.\nFile f("gone.cc");\n')
        self.write("src/a/tree.cc", "")
        self.write("src/a/ring.h", "")
        self.assertEqual(self.check()[0], 0, self.check()[1])
        for gone in ("gone.cc", "src/b/ring.cc", "b/ring.cc", "PLAN.md"):
            self.write("src/a/tree.h", f"// One.\nint a;  // see {gone}.\n")
            self.assertIn(f"src/a/tree.h:2: '{gone}' does not exist", self.check()[1])

    def test_names_of_others_and_programs_pass(self):
        self.names("`std::chrono`, `tf.function`, `--option`\n```\nreceive_all();\n```")
        self.names("`NAME_OF_A_VARIABLE`", "docs/other.md")
        self.assertEqual(self.check()[0], 0, self.check()[1])


class DoxygenFilter(Scratch):
    """What Doxygen reads instead of headers and pages. It needs no Doxygen."""

    def filtered(self, name, text):
        self.write(name, text)
        code, output = self.run_tool(ROOT / "tools/doxygen_filter.py", name, cwd=self.root)
        self.assertEqual(code, 0, output)
        return output

    def test_plain_comments_are_shown(self):
        self.assertEqual(self.filtered("a.h", "// A <name>.\n//\nint a;  // b\n"), "/// A \\<name>.\n///\nint a;  // b\n")

    def test_headings_have_the_names_that_links_use(self):
        text = "# Title\n## One `b`\n[x](a.md#one-b) [y](a.md) `[z](a.md#one-b)` [w](../src)\n```\n## [x](a.md#c)\n```\n"
        self.assertEqual(self.filtered("docs/a.md", text),
                         "# Title\n## One `b` {#docs_a-one-b}\n[x](#docs_a-one-b) [y](a.md) `[z](a.md#one-b)` w\n"
                         "```\n## [x](a.md#c)\n```\n")

    def test_links_to_pages_of_examples_become_text(self):
        self.assertEqual(self.filtered("docs/a.md", "[x](../examples/a/README.md)\n"), "x\n")


class Layers(Scratch):
    """A tree of two modules that keeps to its page, and what happens when it does not."""

    def setUp(self):
        super().setUp()
        self.write("tools/layers.txt", "low:\nhigh: low\nonly Big: src/high\n")
        self.write("src/low/a.h", "#include <vector>\n")
        self.write("src/high/b.cc", '#include <Big/big.h>\n#include "low/a.h"\n#include "cohort/c.h"\n')
        self.write("include/cohort/c.h", '#include <string>\n#include "cohort/d.h"\n')
        self.write("include/cohort/d.h", "")

    def check(self):
        return self.run_tool(ROOT / "tools/check_layers.py", self.root)

    def assert_fails(self, text):
        code, output = self.check()
        self.assertEqual(code, 1, output)
        self.assertIn(text, output)

    def test_a_tree_that_keeps_to_the_page_passes(self):
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_an_include_upward_fails(self):
        self.write("src/low/a.h", '#include "high/b.h"\n')
        self.assert_fails("src/low/a.h: low may not include high")

    def test_a_test_may_include_upward(self):
        self.write("src/low/a_test.cc", '#include "high/b.h"\n')
        self.assertEqual(self.check()[0], 0)

    def test_an_unused_permission_fails(self):
        self.write("src/high/b.cc", "#include <Big/big.h>\n")
        self.assert_fails("high may include low, but nothing does")

    def test_a_page_out_of_order_fails(self):
        self.write("tools/layers.txt", "high: low\nlow:\nonly Big: src/high\n")
        self.assert_fails("high names low, which does not stand above it")

    def test_a_folder_without_a_line_fails(self):
        self.write("src/new/n.cc", "")
        self.assert_fails("src/new has no line")

    def test_a_line_without_a_folder_fails(self):
        self.write("tools/layers.txt", "low:\nhigh: low\nghost:\nonly Big: src/high\n")
        self.assert_fails("src/ghost does not exist")

    def test_an_include_of_no_module_fails(self):
        self.write("src/low/a.h", '#include "a.h"\n')
        self.assert_fails("is in no module")

    def test_a_private_header_in_a_public_one_fails(self):
        self.write("include/cohort/d.h", '#include "low/a.h"\n')
        self.assert_fails("which is not public")

    def test_a_foreign_header_in_a_public_one_fails(self):
        self.write("include/cohort/d.h", "#include <fmt/format.h>\n")
        self.assert_fails("not a C++ standard header")

    def test_a_refused_standard_header_fails(self):
        self.write("tools/layers.txt", "low:\nhigh: low\nonly Big: src/high\nwithout regex map: include/cohort/c.h\n")
        self.assertEqual(self.check()[0], 0)
        self.write("include/cohort/d.h", "#include <regex>\n")
        self.assert_fails("include/cohort/d.h: include/cohort/c.h reaches this header and must do without <regex>")

    def test_a_reserved_header_elsewhere_fails(self):
        self.write("src/low/a.h", "#  include <Big/other.h>\n")
        self.assert_fails("src/low/a.h: only src/high may include <Big/other.h>")

    def test_an_unused_reservation_fails(self):
        self.write("src/high/b.cc", '#include "low/a.h"\n')
        self.assert_fails("src/high may include Big, but does not")


    def test_a_function_that_a_higher_module_defines_needs_a_reason(self):
        self.write("src/low/a.h", "#include <vector>\nstruct A {\n  int own();\n};\n// int other();\n"
                   "int* find(std::vector<int> in = {},\n         int at);\nint here(int a) {\n}\n")
        self.write("src/low/a.cc", '#include "low/a.h"\nint other() {\n}\n')
        above = '#include <Big/big.h>\n#include "low/a.h"\n'
        self.write("src/high/b.cc", above + "int other() {\n}\nint A::own() {\n}\n")
        self.assertEqual(self.check()[0], 0, self.check()[1])
        self.write("src/high/b.cc", above + "int* internal::find(std::vector<int> in, int at) {\n}\n")
        self.assert_fails("src/low/a.h: src/high defines find(); give layers.txt the reason")
        page = self.root / "tools/layers.txt"
        page.write_text(page.read_text() + "higher find: high, for a test\n")
        self.assertEqual(self.check()[0], 0, self.check()[1])
        self.write("src/high/b.cc", above)
        self.assert_fails("layers.txt: high does not define find for a lower module; take it out")


class Format(Scratch):
    def test_a_file_out_of_form_is_named_and_mended_without_git(self):
        self.write(".clang-format", (ROOT / ".clang-format").read_text())
        wrong = self.write("src/a.cc", "int  a ;\n")
        code, output = self.run_tool(ROOT / "tools/check_format.py", self.root)
        self.assertEqual(code, 1)
        self.assertIn("src/a.cc", output)
        self.assertEqual(self.run_tool(ROOT / "tools/check_format.py", "--fix", self.root)[0], 0)
        self.assertEqual(wrong.read_text(), "int a;\n")
        self.assertEqual(self.run_tool(ROOT / "tools/check_format.py", self.root)[0], 0)


class CompileCommands(Scratch):
    """What clangd reads, made of what CMake writes."""

    def entries(self, *commands):
        entries = [{"directory": str(self.root), "file": command.split()[-1], "command": command} for command in commands]
        self.write("build/compile_commands.json", json.dumps(entries))
        code, output = self.run_tool(ROOT / "tools/compile_commands.py", self.root, self.root / "build")
        self.assertEqual(code, 0, output)
        return {pathlib.Path(entry["file"]).name: entry["arguments"]
                for entry in json.loads((self.root / "compile_commands.json").read_text())}

    def test_each_file_that_is_compiled_with_others_has_a_command(self):
        self.write("Unity/unity_0_cxx.cxx", f'#include "{self.root}/a.cc"\n#include "{self.root}/b.cc"\n')
        found = self.entries("g++ -O1 -o u.o -c Unity/unity_0_cxx.cxx", "g++ -O2 -c b.cc", "g++ -O1 -c c.cc")
        self.assertEqual(found, {name: ["g++", "-O1", "-c", f"{self.root.resolve()}/{name}"]
                                 for name in ("a.cc", "b.cc", "c.cc")})

    def test_compiled_headers_and_errors_of_warnings_are_left_out(self):
        found = self.entries("g++ -Werror -Winvalid-pch -include x/cmake_pch.hxx -include y.h -c a.cc", "g++ -c cmake_pch.hxx.cxx")
        self.assertEqual(found, {"a.cc": ["g++", "-include", "y.h", "-c", f"{self.root.resolve()}/a.cc"]})

    def test_files_with_torch_headers_begin_with_the_one_that_clang_needs(self):
        found = self.entries("g++ -isystem /usr/include/torch/csrc/api/include -c a.cc")
        self.assertIn("-include ATen/core/ivalue.h -c", " ".join(found["a.cc"]))


class Lint(Scratch):
    """tools/lint.py with a stand-in for clang-tidy, which finds each line with the word "wrong"."""

    TIDY = """#!/bin/sh
for last; do :; done
for file in $(sed -n 's/#include "\\(.*\\)"/\\1/p' $last) $last; do
  sed -n "/wrong/s|.*|$file:1:1: error: a wrong line [bugprone-wrong,-warnings-as-errors]|p" $file
  sed -n "/new/s|.*|$file:1:1: error: too new [clang-diagnostic-error]|p" $file
done
grep -q wrong $last && exit 1 || exit 0
"""

    def setUp(self):
        super().setUp()
        self.root = self.root.resolve()
        self.write("bin/clang-tidy", self.TIDY, 0o755)
        for name in ("a", "b"):
            self.write(f"src/{name}.cc", f"int {name};\n")
        self.write("src/a_test.cc", "wrong\n")
        self.write("build/src/u/unity_0_cxx.cxx", "".join(f'#include "{self.root}/src/{name}.cc"\n' for name in "ab"))
        files = ("build/src/u/unity_0_cxx.cxx", "src/a_test.cc")
        self.write("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": name, "command": f"g++ -c {name}"} for name in files]))
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "src")
        self.git("commit", "--quiet", "--message=x")

    def git(self, *arguments):
        settings = ("-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *settings, "-C", self.root, *arguments], check=True)

    def lint(self, *options):
        env = {**os.environ, "PATH": f"{self.root}/bin:/usr/bin:/bin"}
        return self.run_tool(sys.executable, ROOT / "tools/lint.py", *options, self.root, self.root / "build", env=env)

    def test_a_changed_file_that_fails_a_check_is_named(self):
        self.write("src/b.cc", "wrong\n")
        code, output = self.lint()
        self.assertEqual(code, 1, output)
        self.assertIn("src/b.cc:1:1: a wrong line [bugprone-wrong]\nlint: 1 failures in 1 compilations", output)

    def test_files_that_did_not_change_and_tests_are_left_out(self):
        self.write("src/b.cc", "wrong\n")
        self.git("commit", "--quiet", "--all", "--message=y")
        self.write("src/a.cc", "int c;\n")
        self.write("src/a_test.cc", "wrong again\n")
        self.assertEqual(self.lint(), (0, "lint: 0 failures in 1 compilations\n"))
        self.assertEqual(self.lint("--since", "HEAD^")[0], 1)

    def test_all_files_are_read_as_they_are_compiled(self):
        self.write("src/b.cc", "wrong\n")
        self.git("commit", "--quiet", "--all", "--message=y")
        code, output = self.lint("--all")
        self.assertEqual(code, 1, output)
        self.assertIn("src/b.cc:1:1: a wrong line", output)
        self.assertIn("1 failures in 1 compilations", output)

    def test_a_changed_header_is_read_in_a_source_that_includes_it(self):
        header = self.write("src/c.h", "wrong\n")
        self.write("src/a.cc", f'#include "{header}"\n')
        self.git("add", "src")
        self.git("commit", "--quiet", "--message=y")
        self.write("src/c.h", "wrong again\n")
        self.assertIn("src/c.h:1:1: a wrong line", self.lint()[1])

    def test_where_a_check_is_wrong_may_be_listed_while_it_is(self):
        self.write("src/b.cc", "wrong\n")
        self.write("tools/lint.txt", "# why\nbugprone-wrong: src/b.cc\n")
        self.assertEqual(self.lint("--all")[0], 0, self.lint("--all")[1])
        self.write("src/b.cc", "int b;\n")
        code, output = self.lint("--all")
        self.assertEqual(code, 1, output)
        self.assertIn("lint.txt: bugprone-wrong does not fail in src/b.cc", output)

    def test_what_clang_cannot_compile_is_counted_and_passes(self):
        self.write("src/b.cc", "new\n")
        self.assertEqual(self.lint(), (0, "lint: 0 failures in 1 compilations, 1 of which clang could read in part only\n"))


class Clang(Scratch):
    """The check that clang takes the sources, with a stand-in for clang that rejects what has the word wrong."""

    def setUp(self):
        super().setUp()
        self.entries = []
        self.log = self.root / "log"
        self.clang = self.write("clang++", f"""#!/bin/sh
echo "$*" >>{self.log}
for batch; do :; done
for file in $(sed -n 's/#include "\\(.*\\)"/\\1/p' $batch); do ! grep -q wrong $file || exit 1; done
""", 0o755)

    def add(self, output, name, text="", words=""):
        path = self.write(name, text)
        self.entries.append({"directory": str(self.root), "file": str(path),
                             "command": f"g++ {words} -O1 -o {output}/x.o -c {path}"})

    def check(self, *options):
        self.write("build/compile_commands.json", json.dumps(self.entries))
        code, output = self.run_tool(ROOT / "tools/check_clang.py", *options, self.root, self.root / "build", self.clang)
        return code, output.strip()

    def test_files_of_a_module_are_read_at_once_with_what_gives_them_a_meaning(self):
        words = "-include x/cmake_pch.hxx -Iinclude -isystem proto -DA=1 -std=c++20 -Werror"
        self.add("src/a/CMakeFiles/cohort_a.dir", "src/a/a.cc", words=words)
        self.add("src/a/CMakeFiles/cohort_a.dir", "src/a/b.cc", words=words)
        self.assertEqual(self.check(), (0, "clang takes 2 files"))
        [command] = self.log.read_text().splitlines()
        self.assertTrue(command.startswith("-Iinclude -isystem proto -DA=1 -std=c++20 -w -fsyntax-only"), command)

    def test_a_module_that_clang_rejects_is_named(self):
        self.add("src/a/CMakeFiles/cohort_a.dir", "src/a/a.cc", "wrong")
        self.add("src/b/CMakeFiles/cohort_b.dir", "src/b/b.cc")
        self.assertEqual(self.check(), (1, "clang rejects sources in src/a"))

    def test_tests_and_generated_files_are_left_out(self):
        self.add("src/a/CMakeFiles/a_test.dir", "src/a/a_test.cc", "wrong")
        self.add("src/a/CMakeFiles/cohort_a.dir", "build/a.pb.cc", "wrong")
        code, output = self.check()
        self.assertEqual(code, 1)
        self.assertIn("compiles no module of src/", output)

    def test_files_with_torch_headers_are_read_when_asked(self):
        self.add("src/a/CMakeFiles/cohort_a.dir", "src/a/a.cc")
        self.add("src/b/CMakeFiles/cohort_b.dir", "src/b/b.cc", "wrong", "-isystem /usr/include/torch/csrc/api/include")
        self.assertEqual(self.check(), (0, "clang takes 1 files"))
        self.assertEqual(self.check("--aten"), (1, "clang rejects sources in src/b"))
        self.assertIn("-include ATen/core/ivalue.h -w", self.log.read_text())


LEFT_OUT = "MPI\tcohort::mpi\tno MPI was found\tapt-get install mpi\tsrc/mpi/mpi_test.cc\n"


class TestSources(Scratch):
    """A tree with a test of an optional part that CMake left out."""

    def setUp(self):
        super().setUp()
        self.write("src/mpi/mpi_test.cc", "")
        self.write("src/a/a_test.cc", "")

    def check(self, left_out, *built):
        commands = [{"directory": str(self.root), "file": name} for name in built]
        return self.run_tool(ROOT / "tools/check_test_sources.py", self.root,
                             self.write("commands.json", json.dumps(commands)), self.write("left_out.txt", left_out))

    def test_a_test_that_is_not_built_is_named(self):
        code, output = self.check("", "src/mpi/mpi_test.cc")
        self.assertEqual(code, 1, output)
        self.assertIn("src/a/a_test.cc is in the tree but in no CMakeLists.txt", output)

    def test_a_test_of_a_part_that_was_left_out_passes_and_is_listed(self):
        code, output = self.check(LEFT_OUT, "src/a/a_test.cc")
        self.assertEqual(code, 0, output)
        self.assertIn("src/mpi/mpi_test.cc is left out: no MPI was found", output)

    def test_a_test_beside_those_of_a_part_that_was_left_out_is_named(self):
        self.write("src/mpi/other_test.cc", "")
        code, output = self.check(LEFT_OUT, "src/a/a_test.cc")
        self.assertEqual(code, 1, output)
        self.assertIn("src/mpi/other_test.cc is in the tree but in no CMakeLists.txt", output)

    def test_a_test_of_a_part_that_was_found_is_named(self):
        code, output = self.check("", "src/a/a_test.cc")
        self.assertEqual(code, 1, output)
        self.assertIn("src/mpi/mpi_test.cc is in the tree", output)


class Optional(Scratch):
    """cmake/CohortOptional.cmake in a project of its own."""

    PROJECT = """cmake_minimum_required(VERSION 3.25)
project(optional NONE)
set(Python3_EXECUTABLE {python})
include({root}/cmake/CohortOptional.cmake)
cohort_python_with(json with_json)
cohort_python_with(no_such_module with_nothing)
cohort_optional(FOUND "${{with_json}}" PART a REASON b REMEDY c TEST_SOURCES a_test.cc)
cohort_optional(MISSING "${{with_nothing}}" PART "d e" REASON "f; g" REMEDY h TEST_SOURCES b_test.cc c_test.cc)
message("FOUND ${{COHORT_HAS_FOUND}}, MISSING ${{COHORT_HAS_MISSING}}")
"""

    def test_only_what_is_not_found_is_listed(self):
        self.write("CMakeLists.txt", self.PROJECT.format(python=sys.executable, root=ROOT))
        code, output = self.run_tool("cmake", "-S", self.root, "-B", self.root / "build")
        self.assertEqual(code, 0, output)
        self.assertIn("FOUND ON, MISSING OFF", output)
        lines = (self.root / "build/left_out.txt").read_text().splitlines()
        self.assertIn("MISSING\td e\tf; g\th\tb_test.cc c_test.cc", lines)
        self.assertFalse([line for line in lines if line.startswith("FOUND")])


class LeftOut(Scratch):
    """What a run left out, from what CMake and ctest write."""

    LOG = """1/2 Testing: launch_test
1/2 Test: launch_test
Output:
[ RUN      ] RealSsh.StartsTasks
ssh_test.cc:73: Skipped
openssh-server is not installed
[  SKIPPED ] RealSsh.StartsTasks (0 ms)
[ RUN      ] RealSsh.EndsTasks
ssh_test.cc:73: Skipped
openssh-server is not installed

[  SKIPPED ] RealSsh.EndsTasks (0 ms)
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] RealSsh.StartsTasks
2/2 Testing: other_test
2/2 Test: other_test
Output:
[       OK ] Other.Passes (0 ms)
"""

    def summary(self, left_out, log):
        self.write("left_out.txt", left_out)
        self.write("Testing/Temporary/LastTest.log", log)
        code, output = self.run_tool(ROOT / "tools/left_out.py", self.root)
        self.assertEqual(code, 0, output)
        return output.strip().splitlines()

    def test_parts_and_skipped_tests_are_listed_with_their_reasons(self):
        self.assertEqual(self.summary(LEFT_OUT, self.LOG), [
            "Left out, and why:",
            "  cohort::mpi: no MPI was found (apt-get install mpi)",
            "  launch_test: RealSsh.StartsTasks and 1 more: openssh-server is not installed"])

    def test_a_run_that_left_nothing_out_says_so(self):
        self.assertEqual(self.summary("", ""), ["Nothing was left out."])


class DocPrograms(Scratch):
    GOOD = "<!-- program: a -->\n```cpp\nstd::cout << 1;\n```\n\n```\n1\n```\n"

    def check(self, text):
        return self.run_tool(ROOT / "tools/doc_programs.py", "check", self.root, self.write("page.md", text))

    def assert_fails(self, text, message):
        code, output = self.check(text)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def test_a_marked_block_with_output_passes(self):
        self.assertEqual(self.check(self.GOOD)[0], 0)

    def test_a_block_without_marker_fails(self):
        self.assert_fails("```cpp\nint a;\n```\n", "page.md:1: a C++ block without")

    def test_a_program_without_output_fails(self):
        self.assert_fails("<!-- program: a -->\n```cpp\n```\ntext\n```\n1\n```\n", "not followed by")

    def test_two_programs_of_one_name_fail(self):
        self.assert_fails(self.GOOD * 2, "two programs are called a")

    def test_a_file_that_is_not_there_fails(self):
        self.assert_fails("see `src/gone.cc`\n", "there is no src/gone.cc")

    def test_other_languages_are_left_alone(self):
        self.assertEqual(self.check("```sh\nls\n```\n")[0], 0)

    def test_extraction_wraps_a_body_and_keeps_a_whole_program(self):
        whole = "<!-- program: b, output varies -->\n```cpp\nint main() {}\n```\n"
        page = self.write("page.md", self.GOOD + whole)
        code, output = self.run_tool(ROOT / "tools/doc_programs.py", "extract", self.root / "out", page)
        self.assertEqual((code, output), (0, "a;b"))
        self.assertIn("int main() {\nstd::cout << 1;", (self.root / "out/a.cc").read_text())
        self.assertEqual((self.root / "out/a.out").read_text(), "1\n")
        self.assertEqual((self.root / "out/b.cc").read_text(), "int main() {}\n")
        self.assertFalse((self.root / "out/b.out").exists())

    def test_running_compares_all_output(self):
        program = self.write("program", "#!/bin/sh\necho two\n", 0o755)
        run = lambda text: self.run_tool(ROOT / "tools/doc_programs.py", "run", program, self.write("x", text))
        self.assertEqual(run("two\n")[0], 0)
        self.assertEqual(run("one\n")[0], 1)
        self.assertIn("+two", run("one\n")[1])
        self.write("program", "#!/bin/sh\necho two\nexit 3\n", 0o755)
        self.assertIn("ended with 3", run("two\n")[1])

    def test_a_console_block_says_how_tasks_are_started_and_what_they_print_in_any_order(self):
        block = "<!-- program: a -->\n```cpp\nint main() {}\n```\n```console\n%s\n[worker:0] 1\n```\n"
        self.assertEqual(self.check(block % "$ cohort run -n 2 ./a")[0], 0)
        self.assert_fails(block % "$ ./a", "page.md:5: a console block does not begin with")
        program = self.write("program", "#!/bin/sh\necho two\necho one\n", 0o755)
        command = self.write("cohort", '#!/bin/sh\necho "$1 $2 $3"\nexec "$4"\n', 0o755)
        run = lambda text: self.run_tool(ROOT / "tools/doc_programs.py", "run", program, self.write("x", text), command)
        self.assertEqual(run("$ cohort run -n 2 ./a\none\nrun -n 2\ntwo\n"), (0, ""))
        self.assertIn("-three", run("$ cohort run -n 2 ./a\none\nrun -n 2\nthree\n")[1])
        self.assertEqual(run("one\ntwo\n")[0], 1)

    def test_the_examples_of_headers_become_functions_and_keep_their_lines(self):
        header = self.write("a.h", "// Text.\n//\n//   int x = 1;\n//   f(x);\n// Text.\n  //   g();\nint a;  //   not this\n"
                                   "//  Nor this.\n//   struct A {};\n//   h();\n//\n//   A f(int x) {\n//\n//   }\n//\n//   end();\n")
        torch = self.write("torch_a.h", "//   if (x) {\n//   }\n")
        code, output = self.run_tool(ROOT / "tools/doc_programs.py", "headers", self.root / "out", header, torch)
        self.assertEqual((code, output), (0, ""))
        text = (self.root / "out/examples.cc").read_text()
        self.assertIn(f'auto example_1(PARAMETERS) {{\n{{\n#line 3 "{header}"\n   int x = 1;\n   f(x);\n}}\n}}\n', text)
        self.assertIn(f'auto example_2(PARAMETERS) {{\n{{\n#line 6 "{header}"\n   g();\n}}\n}}\n', text)
        self.assertIn(f'namespace example_3 {{\n#line 9 "{header}"\n   struct A {{}};\n   h();\n}}\n', text)
        self.assertIn(f'namespace example_4 {{\n#line 12 "{header}"\n   A f(int x) {{\n\n   }}\n}}\n', text)
        self.assertIn(f'auto example_5(PARAMETERS) {{\n{{\n#line 16 "{header}"\n   end();\n}}\n}}\n', text)
        self.assertIn("#include <cohort/cohort.h>\n#include <cohort/a.h>\n", text)
        self.assertNotIn("ot this", text)
        text = (self.root / "out/torch_examples.cc").read_text()
        self.assertIn("#include <cohort/torch.h>\n#include <cohort/torch_a.h>\n", text)
        self.assertIn(f'auto example_1(PARAMETERS) {{\n{{\n#line 1 "{torch}"\n   if (x) {{\n   }}\n}}\n}}\n', text)


class Setup(Scratch):
    """scripts/setup.sh with stand-ins for the commands that would change the machine."""

    def setUp(self):
        super().setUp()
        self.log = self.root / "log"
        self.write("bin/sudo", "#!/bin/sh\n[ -n \"$MAY_SUDO\" ] || exit 1\nshift\nexec \"$@\"\n", 0o755)
        self.write("bin/apt-get", f'#!/bin/sh\necho "apt-get $*" >>{self.log}\n', 0o755)

    def installed(self, *without):
        names = self.run_tool(ROOT / "scripts/setup.sh", "--list")[1].split()
        lines = "".join(f"installed {name}\\n" for name in names if name not in without)
        self.write("bin/dpkg-query", f"#!/bin/sh\nprintf '{lines}'\n", 0o755)

    def setup_as_user(self, *arguments, **variables):
        env = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", **variables}
        env.pop("COHORT_NO_SETUP", None)
        user = {"user": "nobody"} if os.geteuid() == 0 else {}
        self.root.chmod(0o777)
        return self.run_tool("bash", "-s", "--", *arguments, cwd=self.root, env=env,
                             input=(ROOT / "scripts/setup.sh").read_text(), **user)

    def test_it_does_nothing_when_all_is_there(self):
        self.installed()
        code, output = self.setup_as_user(MAY_SUDO="1")
        self.assertEqual(code, 0, output)
        self.assertFalse(self.log.exists())

    def test_it_installs_only_what_is_missing(self):
        self.installed("lld", "ccache")
        code, output = self.setup_as_user(MAY_SUDO="1")
        self.assertEqual(code, 0, output)
        self.assertEqual(self.log.read_text().splitlines()[-1],
                         "apt-get install --yes --no-install-recommends ccache lld")

    def test_it_installs_further_packages_when_asked(self):
        for option, package in (("--optional", "libopenmpi-dev"), ("--lint", "clang-tidy"), ("--docs", "doxygen")):
            self.installed()
            code, output = self.setup_as_user(option, MAY_SUDO="1")
            self.assertEqual(code, 0, output)
            self.assertIn(package, self.log.read_text())

    def test_it_fetches_libtorch_2_when_asked_and_passes_its_exit_code_on(self):
        self.installed()
        self.write("fetch_torch.py", f"#!/bin/sh\necho fetched >>{self.log}\nexit 3\n", 0o755)
        self.assertEqual(self.setup_as_user(MAY_SUDO="1")[0], 0)
        self.assertFalse(self.log.exists())
        self.assertEqual(self.setup_as_user("--torch2", MAY_SUDO="1")[0], 3)
        log = self.log.read_text()
        self.assertIn("python3-pip", log)
        self.assertTrue(log.endswith("fetched\n"), log)

    def test_without_the_right_to_install_it_prints_the_command(self):
        self.installed("lld", "ccache")
        code, output = self.setup_as_user(MAY_SUDO="")
        self.assertEqual(code, 1)
        self.assertIn("sudo apt-get install --no-install-recommends ccache lld", output)
        self.assertFalse(self.log.exists())

    def test_every_package_has_a_reason_in_the_documents(self):
        page = (ROOT / "docs/dependencies.md").read_text()
        for name in self.run_tool(ROOT / "scripts/setup.sh", "--optional", "--lint", "--docs", "--torch2", "--list")[1].split():
            self.assertIn(f"`{name}`", page)


class FetchTorch(Scratch):
    """scripts/fetch_torch.py with a small wheel, a server on this machine, and a stand-in for pip."""

    FILE = "torch-2.99.0-cp311-cp311-any.whl"
    WANTED = ("torch/include/ATen/ATen.h", "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp.so.1",
              "nvidia/cu13/lib/libcudart.so.13", "torch-2.99.0.dist-info/licenses/LICENSE")
    OTHERS = ("torch/__init__.py", "torch/lib/libtorch_cuda.so", "torch/lib/libtorch_python.so", "torch/include/fmt/core.h",
              "nvidia/cu13/include/cuda.h")

    def setUp(self):
        super().setUp()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name in self.WANTED + self.OTHERS:
                archive.writestr(name, f"this is {name}")
        self.wheel = packed.getvalue()
        self.sha256 = hashlib.sha256(self.wheel).hexdigest()
        self.requests = []  # the first byte that each asked for
        self.sent = [len(self.wheel)]  # how many bytes each answer has at most; the last one counts for all later
        self.pip_finds(f"{self.serve()}/packages/{self.FILE}#sha256=x")

    def serve(self):
        test = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                first = int(re.search(r"=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
                test.requests.append(first)
                limit = test.sent.pop(0) if len(test.sent) > 1 else test.sent[0]
                self.send_response(206 if first else 200)
                self.send_header("Content-Length", str(len(test.wheel) - first))
                self.end_headers()
                self.wfile.write(test.wheel[first:first + limit])

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def pip_finds(self, link):
        self.write("bin/python3", f"#!/bin/sh\necho '  Found link {link} (from an index)'\n", 0o755)

    def fetch(self):
        program = ("import sys\n"
                   f"sys.path.insert(0, '{ROOT}/scripts')\n"
                   "import fetch_torch\n"
                   f"fetch_torch.WHEELS = [fetch_torch.Wheel('torch', '2.99.0', 'cp311-cp311-any', {len(self.wheel)}, '{self.sha256}')]\n"
                   "fetch_torch.UNPACKED_MB, fetch_torch.ATTEMPTS = 1, 1\n"
                   "fetch_torch.main()\n")
        env = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "no_proxy": "*"}
        env.pop("PIP_CERT", None)
        return self.run_tool(sys.executable, "-B", self.write("fetch.py", program), self.root / "libtorch", env=env)

    def assert_complete(self, outcome):
        self.assertEqual(outcome[0], 0, outcome[1])
        for name in self.WANTED:
            self.assertEqual((self.root / "libtorch" / name).read_text(), f"this is {name}")

    def test_the_part_for_cpp_is_unpacked_and_the_size_is_said_first(self):
        outcome = self.fetch()
        self.assert_complete(outcome)
        self.assertIn("LibTorch 2.99.0 from PyPI: 0 MB to download, 1 MB in", outcome[1])
        for name in (*self.OTHERS, "downloads"):
            self.assertFalse((self.root / "libtorch" / name).exists(), name)

    def test_a_second_run_needs_no_network_and_another_list_is_fetched_anew(self):
        self.fetch()
        self.pip_finds("nothing")
        self.assertEqual(self.fetch(), (0, ""))
        self.write("libtorch/complete", "another list")
        code, output = self.fetch()
        self.assertEqual(code, 3, output)
        self.assertFalse((self.root / "libtorch/torch").exists())

    def test_a_lost_connection_goes_on_where_it_stopped(self):
        self.sent = [100, 200, len(self.wheel)]
        self.assert_complete(self.fetch())
        self.assertEqual(self.requests, [0, 100, 300])

    def test_an_interrupted_run_goes_on_where_it_stopped(self):
        self.sent = [100, 0]
        code, output = self.fetch()
        self.assertEqual(code, 3, output)
        self.assertIn("could not be fetched, 0 of 0 MB are there", output)
        self.assertIn("Run it again to go on", output)
        self.requests.clear()
        self.sent = [len(self.wheel)]
        self.assert_complete(self.fetch())
        self.assertEqual(self.requests, [100])

    def test_another_file_is_refused_and_removed(self):
        expected, self.sha256 = self.sha256, "0" * 64
        code, output = self.fetch()
        self.assertEqual(code, 1, output)
        self.assertIn(f"expected SHA-256 {'0' * 64}, found {expected}", output)
        self.assertEqual(list((self.root / "libtorch/downloads").iterdir()), [])
        self.assertFalse((self.root / "libtorch/torch").exists())

    def test_without_network_it_says_what_to_do(self):
        self.write("bin/python3", "#!/bin/sh\necho 'ERROR: No matching distribution found for torch' >&2\nexit 1\n", 0o755)
        code, output = self.fetch()
        self.assertEqual(code, 3, output)
        self.assertIn("is the package index reachable?", output)
        self.assertIn(f"put these files into {self.root}/libtorch/downloads: {self.FILE}.", output)
        self.assertIn("pip said: ERROR: No matching distribution found for torch", output)

    def test_a_file_that_was_put_there_is_taken_without_network(self):
        self.pip_finds("nothing")
        (self.root / "libtorch/downloads").mkdir(parents=True)
        (self.root / "libtorch/downloads" / self.FILE).write_bytes(self.wheel)
        self.assert_complete(self.fetch())
        self.assertEqual(self.requests, [])


class RecordTerminal(Scratch):
    def record(self, *commands):
        return self.run_tool(ROOT / "tools/record_terminal.py", self.root / "a.svg", self.root, *commands)

    def test_a_picture_has_what_the_commands_print_with_its_colours(self):
        self.write("say", "#!/bin/sh\nprintf '1 < 2\\n\\033[31m%s\\033[0m\\n' $1\n", 0o755)
        self.assertEqual(self.record("./say red", "./say two"), (0, ""))
        picture = (self.root / "a.svg").read_text()
        self.assertEqual(re.findall(r"<text.*</text>", picture)[2].count('fill="#ff7b72">red'), 1)
        self.assertIn("1 &lt; 2", picture)
        self.assertIn("</tspan> ./say two</text>", picture)

    def test_a_command_that_fails_leaves_no_picture(self):
        self.write("fail", "#!/bin/sh\necho why\nexit 3\n", 0o755)
        code, output = self.record("./fail")
        self.assertNotEqual(code, 0)
        self.assertIn("ended with 3:\nwhy", output)
        self.assertFalse((self.root / "a.svg").exists())


class Environment(unittest.TestCase):
    """docs/environment.md lists what the source reads from and writes to the environment."""

    NAME = re.compile(r'"((?:COHORT|TF|SLURM|SM|OMPI|PMI|PMIX|KUBERNETES|LOCAL|WORLD|MASTER|OMP)_[A-Za-z_]+)"')

    def test_every_variable_is_listed(self):
        page = (ROOT / "docs/environment.md").read_text()
        for path in sorted((ROOT / "src").rglob("*.cc")):
            if path.name.endswith("_test.cc"):
                continue
            for name in self.NAME.findall(path.read_text()):
                self.assertIn(f"`{name}`", page, path)


class Fresh(Scratch):
    """scripts/fresh.sh where it can make no clean system. `make fresh` itself is its test where it can."""

    def fresh(self, **options):
        env = {"PATH": f"{self.root}/bin", "HOME": str(self.root)}
        for tool in ("bash", "dirname", "cat"):
            (self.root / "bin").mkdir(exist_ok=True)
            (self.root / "bin" / tool).symlink_to(shutil.which(tool))
        return self.run_tool("bash", "-s", env=env, input=(ROOT / "scripts/fresh.sh").read_text(), **options)

    def test_an_ordinary_user_reads_what_to_type(self):
        self.root.chmod(0o777)
        code, output = self.fresh(**({"user": "nobody"} if os.geteuid() == 0 else {}))
        self.assertEqual(code, 3, output)
        self.assertIn("sudo make fresh", output)


class Compare(Scratch):
    """Benchmarks' output becomes a table, JSON and a picture."""

    OUTPUT = """                                                    cohort         torch
MLP step                                        10.00 us      15.00 us  ratio 0.667  limit 1.00  ok
64 KB
  pack           best       1.00 us  median       2.00 us
  pack     is    3.25 times Open MPI       best    3.10  wanted 3.00  ok
"""

    def test_reads_both_kinds_of_lines(self):
        self.write("text", self.OUTPUT)
        tool = ROOT / "benchmarks/compare/compare.py"
        code, said = self.run_tool(tool, "--read", self.root / "text", self.root / "out")
        self.assertEqual(code, 0, said)
        self.assertIn("| MLP step | peer | 1.50 |", said)
        figures = json.loads((self.root / "out/compare.json").read_text())["figures"]
        self.assertEqual([(f["peer"], f["times"]) for f in figures], [("peer", 1.5), ("Open MPI", 3.25)])
        self.assertEqual((self.root / "out/compare.svg").read_text().count("<rect"), 2)

    def test_takes_the_peer_from_a_line_that_names_it(self):
        self.write("text", "LeNet, beside one process   10.00 us   5.00 us  0.5\n"
                           "map.batch / torch DataLoader (5x) 1000000.00 us 5000000.00 us  ratio 0.2\n")
        code, said = self.run_tool(ROOT / "benchmarks/compare/compare.py", "--read", self.root / "text", self.root / "out")
        self.assertEqual(code, 0, said)
        self.assertIn("| LeNet | one process | 0.50 |", said)
        self.assertIn("| map.batch | torch DataLoader | 5.00 |", said)

    def run_with_programs(self, **programs):
        for name, text in programs.items():
            self.write(f"programs/{name}", "#!/bin/sh\n" + text, 0o755)
        return self.run_tool(ROOT / "benchmarks/compare/compare.py", self.root / "programs", self.root / "out")

    def test_names_what_is_left_out(self):
        code, said = self.run_with_programs(
            bench_foundation="echo 'MLP step   10.00 us   15.00 us'\n",
            bench_cluster="echo 'ZeroMQ: left out, built without it (libzmq3-dev)'\n",
            bench_data="echo 'no room' >&2\nexit 3\n")
        self.assertEqual(code, 0, said)
        left_out = json.loads((self.root / "out/compare.json").read_text())["left_out"]
        self.assertIn("ZeroMQ: left out, built without it (libzmq3-dev)", left_out)
        self.assertIn("input: left out, bench_data ended with 3 no room", left_out)
        self.assertTrue(any("bench_strategies was not built" in line for line in left_out), left_out)
        for line in left_out:
            self.assertIn(f"- {line}", (self.root / "out/compare.md").read_text())

    def test_the_picture_has_room_for_names_and_bars(self):
        self.write("text", "X" * 60 + " over Gloo  1.00 us  4096.00 us\nslow over Gloo  4.00 us  1.00 us\n")
        code, said = self.run_tool(ROOT / "benchmarks/compare/compare.py", "--read", self.root / "text", self.root / "out")
        self.assertEqual(code, 0, said)
        picture = (self.root / "out/compare.svg").read_text()
        width = float(re.search(r'width="(\d+)"', picture)[1])
        names = [float(x) for x in re.findall(r'<text x="(\d+)" y="\d+" text-anchor', picture)]
        bars = [(float(x), float(w)) for x, w in re.findall(r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)"', picture)]
        self.assertGreater(names[0], 60 * 6)
        self.assertTrue(all(names[0] < x and x + w < width for x, w in bars), picture)

    def test_says_when_there_is_nothing(self):
        self.write("text", "nothing\n")
        code, said = self.run_tool(ROOT / "benchmarks/compare/compare.py", "--read", self.root / "text", self.root / "out")
        self.assertNotEqual(code, 0)
        self.assertIn("nothing was compared", said)


if __name__ == "__main__":
    unittest.main()
