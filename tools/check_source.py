#!/usr/bin/env python3
"""Checks rules of the source that a search can check: constructs that few files may have, and file
names, which must differ.

usage: check_source.py ROOT
"""
import collections
import dataclasses
import pathlib
import re
import sys


@dataclasses.dataclass
class Rule:
    pattern: str
    why: str
    allowed: tuple = ()  # files, or directories that end in "/"
    unless: str = ""  # a pattern; a file in which it occurs may break the rule

    def allows(self, name, text):
        if self.unless and re.search(self.unless, text):
            return True
        return any(name.startswith(place) if place.endswith("/") else name == place
                   for place in self.allowed)


RULES = (
    Rule(r"(raise|Error|Status)\s*[({][^;]{0,40}?Code::OutOfRange",
         "OutOfRange is the end of data; a bad index is InvalidArgument",
         # Where the data ends: iterators, closed queues, and a program that ends its loop.
         ("include/cohort/monitored_session.h", "src/data/iterator.cc",
          "src/distribute/input/distributed_dataset.cc", "src/ops/fifo_queue.cc", "src/ops/iterator_ops.cc")),
    Rule(r"__builtin_ia32_pause|_mm_pause|sched_yield|this_thread::(yield|sleep)|\b(u|nano)sleep\(",
         "only src/base/waiting.h spins, yields or sleeps; wait on a condition, or call its functions",
         ("src/base/waiting.h",)),
    Rule(r"\bthread_local\b",
         "what work takes along to another thread is a ContextSlot (src/base/thread_context.h)",
         # What is a thread's own: its name, timeline, held locks, counters and random numbers, and
         # the scope that set_strategy() opens for the rest of the thread.
         ("include/cohort/internal/torch_writes.h", "src/base/mutex.h", "src/base/thread.cc",
          "src/base/thread_context.cc", "src/base/thread_context.h", "src/base/timeline.cc",
          "src/data/byte_source.cc", "src/distribute/contexts/context.cc",
          "src/ops/random_ops.cc", "src/ops/torch_random.cc", "src/ops/traced_step.cc")),
    Rule(r"std::\w*mutex\b(?![&>])",
         "the check for locks sees no std::mutex; guard data with a Mutex, and let work that waits take a Turn "
         "(src/base/mutex.h)",
         # A public header includes no private one, and a Mutex is not recursive.
         ("include/", "src/base/mutex.h", "src/graph/graph_impl.h"),
         unless=r"std::condition_variable\b"),
    Rule(r"std::random_device", "ask random_number() of src/base/random_number.h",
         ("src/base/random_number.h",)),
    Rule(r"\bop(\.|->)name(\(\))?\s*([=!]=|\.(starts|ends)_with|\.find\()|\bop\s*[=!]=\s*\"",
         "ask for a trait of the op (src/ops/op.h), or compare with its constant", ("src/ops/",)),
    # The kinds of stages begin with a capital letter, those of connections and engines do not.
    Rule(r"\bkind\(\)\s*[=!]=\s*\"[A-Z]",
         "ask the stage of a dataset a question about itself (src/data/node.h), not for its name"),
    # A text that begins with a placeholder was made elsewhere, with its operation.
    Rule(r"\braise\(\s*[^;\"]{0,80}?,\s*\"(?![\[{])|\bError\(\s*Code::\w+,\s*(std::string\()?\"(?!\[)",
         "the text of an error begins with its operation: \"[Operation] what was expected, found and to do\"",
         # Their texts are parts, which the caller completes: with the node or the file that is read, with
         # the stage of the dataset, with the address of the task. The command's texts begin with its name.
         ("src/cli/", "src/cluster/peers.cc", "src/data/map.cc", "src/data/reader.cc", "src/data/rebatch.cc",
          "src/data/sources.cc", "src/data/take_skip_filter.cc", "src/data/window.cc",
          "src/graph/deserialize_graph.cc", "src/graph/read_nodes.cc", "src/graph/serialize_graph.cc",
          "src/graph/wire_format.cc", "src/ops/native_function.cc", "src/tensor/tensor_proto.cc")),
    # A text of one placeholder was made elsewhere, with its component.
    Rule(r"\blog_((debug|info|warning|error)\(\s*|at\([^;\"]*)\"(?!\[|\{\}[\":])",
         "a message of the log begins with its component: \"[Component] sentence\" (COHORT_LOG selects by it)",
         ("src/base/log.cc",)),
    Rule(r"extern const OpDef", "src/ops/all_ops.h declares every op", ("src/ops/all_ops.h",)),
)


def source_files(root, top):
    for path in sorted((root / top).rglob("*")):
        if path.suffix in (".h", ".cc") and not path.name.endswith("_test.cc"):
            yield path.relative_to(root).as_posix(), path


def broken_rules(root):
    for name, path in (*source_files(root, "include"), *source_files(root, "src")):
        text = path.read_text()
        for rule in RULES:
            found = None if rule.allows(name, text) else re.search(rule.pattern, text, re.DOTALL)
            if found:
                line = text.count("\n", 0, found.start()) + 1
                yield f"{name}:{line}: {rule.why}"


def duplicate_names(root):
    by_name = collections.defaultdict(list)
    for name, path in source_files(root, "src"):
        by_name[path.name].append(name)
    for name, files in sorted(by_name.items()):
        if len(files) > 1:
            yield f"{' and '.join(files)} have the same name; name each after its subject"


def problems(root):
    return [*broken_rules(root), *duplicate_names(root)]


def main():
    found = problems(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "the source keeps to its rules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
