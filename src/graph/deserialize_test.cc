// What reading must refuse.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "graph/wire_format.h"
#include "support/expect_error.h"
#include "support/sample_graphs.h"

namespace cohort::testing {
namespace {

namespace message = internal::message;
using Change = std::function<void(message::Document&)>;

message::Node& node(message::Document& document, std::string_view name) {
  for (message::Node& found : *document.mutable_nodes()) {
    if (found.name() == name) return found;
  }
  throw std::runtime_error("no such node");
}

message::Attr& attr(message::Node& node, std::string_view name) {
  for (message::Attr& found : *node.mutable_attrs()) {
    if (found.name() == name) return found;
  }
  throw std::runtime_error("no such attribute");
}

std::string changed(const Graph& graph, const Change& change) {
  message::Document document;
  EXPECT_TRUE(document.ParseFromString(graph.serialize()));
  change(document);
  return document.SerializeAsString();
}

void expect_refused(std::string_view fragment, const Change& change,
                    Code code = Code::InvalidArgument) {
  const std::string bytes = changed(small_graph(), change);
  EXPECT_ERROR(code, fragment, Graph::deserialize(bytes));
}

TEST(ReadingGraphs, RefusesAPlaceBesideNobody) {
  expect_refused("placed with 'nobody', which does not exist",
                 [](auto& document) { node(document, "x").add_colocated_with("nobody"); });
}

TEST(ReadingGraphs, RefusesVariablesThatAreNone) {
  const auto add = [](message::Document& document, const char* handle, const char* initializer) {
    message::GraphVariable& variable = *document.add_variables();
    variable.set_handle(handle);
    variable.set_initializer(initializer);
  };
  expect_refused("there is no tensor 'w'", [&](auto& document) { add(document, "w", "x"); });
  expect_refused("not the handle of a variable", [&](auto& document) { add(document, "x", "x"); });
}

TEST(ReadingGraphs, RefusesGarbage) {
  EXPECT_ERROR(Code::InvalidArgument, "not a serialized graph", Graph::deserialize(""));
  EXPECT_ERROR(Code::InvalidArgument, "not a serialized graph", Graph::deserialize("garbage"));
  const std::string bytes = small_graph().serialize();
  EXPECT_ERROR(Code::InvalidArgument, "not a serialized graph",
               Graph::deserialize(std::string_view(bytes).substr(0, bytes.size() - 1)));
  EXPECT_ERROR(Code::InvalidArgument, "not a serialized graph",
               Graph::deserialize(bytes + "\x7a\x01z"));
}

TEST(ReadingGraphs, RefusesNewerFormats) {
  const Change newer = [](message::Document& document) { document.set_format(2); };
  expect_refused("format 2", newer, Code::Unimplemented);
  // Even when it has what this library does not know.
  EXPECT_ERROR(Code::Unimplemented, "format 2",
               Graph::deserialize(changed(small_graph(), newer) + "\x7a\x01z"));
}

TEST(ReadingGraphs, RefusesMorePartsThanMemoryIsTakenFor) {
  std::string many;
  for (int i = 0; i <= 1 << 23; ++i) many += std::string_view("\x2a\x00", 2);
  message::Document document;
  document.set_format(1);
  std::string bytes = document.SerializeAsString() + "\x1a";
  for (size_t size = many.size(); size > 0; size >>= 7) {
    bytes += static_cast<char>((size & 0x7f) | (size >= 0x80 ? 0x80 : 0));
  }
  EXPECT_ERROR(Code::InvalidArgument, "more than 8388608 parts", Graph::deserialize(bytes + many));
}

TEST(ReadingGraphs, RefusesBadNames) {
  for (const std::string name : {"", "_x", "a:0", "a b", "^a", "a\n", "\xff"}) {
    expect_refused("the name is not a node's",
                   [&](message::Document& d) { node(d, "c").set_name(name); });
  }
  expect_refused("two nodes have this name",
                 [](message::Document& d) { node(d, "c").set_name("x"); });
}

TEST(ReadingGraphs, RefusesBadInputs) {
  for (const std::string input :
       {"Split:01", "Split:", "Split:-1", "Split:x", "", "^", "_x", "Split:99999999999999999999"}) {
    expect_refused("is neither 'name'",
                   [&](message::Document& d) { node(d, "Neg").set_inputs(0, input); });
  }
  expect_refused("input 'nobody' does not exist",
                 [](message::Document& d) { node(d, "Neg").set_inputs(0, "nobody"); });
  expect_refused("there is no tensor 'Split:2'",
                 [](message::Document& d) { node(d, "Neg").set_inputs(0, "Split:2"); });
  expect_refused("must come before the control inputs", [](message::Document& d) {
    node(d, "Neg").set_inputs(0, "^x");
    node(d, "Neg").add_inputs("Add");
  });
}

TEST(ReadingGraphs, RefusesWrongNumbersOfInputs) {
  expect_refused("takes 1 to 1 inputs, got 2",
                 [](message::Document& d) { node(d, "Neg").add_inputs("x"); });
  expect_refused("takes 2 to 2 inputs, got 1",
                 [](message::Document& d) { node(d, "Add").mutable_inputs()->RemoveLast(); });
}

TEST(ReadingGraphs, RefusesCycles) {
  expect_refused("'Neg' depends on itself",
                 [](message::Document& d) { node(d, "Neg").set_inputs(0, "Neg"); });
  expect_refused("depends on itself",
                 [](message::Document& d) { node(d, "Split").add_inputs("^Neg"); });
}

TEST(ReadingGraphs, TakesNodesInAnyOrder) {
  const std::string bytes = changed(small_graph(), [](message::Document& document) {
    std::reverse(document.mutable_nodes()->begin(), document.mutable_nodes()->end());
  });
  const Graph read = Graph::deserialize(bytes);
  EXPECT_EQ(read.size(), small_graph().size());
  EXPECT_EQ(read.tensor("Neg").shape(), (Shape{2, 2}));
}

TEST(ReadingGraphs, RefusesUnknownOps) {
  expect_refused("node 'Neg' ('Nag'): the op is unknown",
                 [](message::Document& d) { node(d, "Neg").set_op("Nag"); });
  expect_refused("only functions have arguments",
                 [](message::Document& d) { node(d, "x").set_op("Argument"); });
}

TEST(ReadingGraphs, RefusesWrongAttributes) {
  expect_refused("lacks the attribute 'axis'",
                 [](message::Document& d) { node(d, "Split").mutable_attrs()->RemoveLast(); });
  expect_refused("the op has no attribute 'size'",
                 [](message::Document& d) { attr(node(d, "Split"), "sizes").set_name("size"); });
  expect_refused("comes twice", [](message::Document& d) {
    *node(d, "Split").add_attrs() = attr(node(d, "Split"), "axis");
  });
  expect_refused("attribute 'axis' must be an integer",
                 [](message::Document& d) { attr(node(d, "Split"), "axis").set_flag(true); });
  expect_refused("attribute 'axis' has no value",
                 [](message::Document& d) { attr(node(d, "Split"), "axis").clear_value(); });
  expect_refused("function 'f' is not listed",
                 [](message::Document& d) { attr(node(d, "Split"), "axis").set_function("f"); });
  expect_refused("axis 9 does not exist",
                 [](message::Document& d) { attr(node(d, "Split"), "axis").set_integer(9); });
}

TEST(ReadingGraphs, RefusesOutputsThatTheOpDoesNotHave) {
  expect_refused("output 0 is float32 (2, 2), but float32 (3, 2) is stated",
                 [](message::Document& d) {
                   node(d, "Neg").mutable_outputs(0)->mutable_shape()->set_sizes(0, 3);
                 });
  expect_refused("but int32 (2, 2) is stated", [](message::Document& d) {
    node(d, "Neg").mutable_outputs(0)->set_dtype("int32");
  });
  expect_refused("the node has 1 outputs, but 2 are stated", [](message::Document& d) {
    *node(d, "Neg").add_outputs() = node(d, "Neg").outputs(0);
  });
}

TEST(ReadingGraphs, RefusesDtypesThatTheOpDoesNotTake) {
  const auto set_dtype = [](message::Document& d, const std::string& dtype) {
    attr(node(d, "x"), "dtype").set_dtype(dtype);
    node(d, "x").mutable_outputs(0)->set_dtype(dtype);
    for (message::Spec& output : *node(d, "Split").mutable_outputs()) output.set_dtype(dtype);
  };
  expect_refused("an input is string, but must be one of",
                 [&](message::Document& d) { set_dtype(d, "string"); });
  expect_refused("must have one dtype", [&](message::Document& d) {
    set_dtype(d, "int32");
    node(d, "Add").set_inputs(1, "c");
  });
}

TEST(ReadingGraphs, RefusesTensorsThatAreNotWhatTheySay) {
  const auto refuse = [](std::string_view fragment,
                         const std::function<void(proto::TensorValue&)>& change) {
    expect_refused(fragment, [&](message::Document& d) {
      change(*attr(node(d, "c"), "value").mutable_tensor());
    });
  };
  refuse("8 bytes do not make up a float32 tensor of shape (3,)",
         [](proto::TensorValue& t) { t.set_sizes(0, 3); });
  refuse("bytes do not make up", [](proto::TensorValue& t) { t.set_dtype("float64"); });
  refuse("unknown shape", [](proto::TensorValue& t) { t.set_sizes(0, -1); });
  refuse("-2", [](proto::TensorValue& t) { t.set_sizes(0, -2); });
  refuse("a dimension has size", [](proto::TensorValue& t) { t.set_sizes(0, INT64_MAX); });
  refuse("fit into 64 bits", [](proto::TensorValue& t) {
    for (int i = 0; i < 3; ++i) t.add_sizes(int64_t{1} << 40);
  });
  refuse("but a tensor has at most 8", [](proto::TensorValue& t) {
    for (int i = 0; i < 8; ++i) t.add_sizes(1);
  });
  refuse("'float31' is not a dtype", [](proto::TensorValue& t) { t.set_dtype("float31"); });
  refuse("cannot be sent", [](proto::TensorValue& t) { t.set_dtype("resource"); });
  refuse("a string tensor must not hold", [](proto::TensorValue& t) { t.set_dtype("string"); });
  refuse("0 strings do not make up shape (2,)", [](proto::TensorValue& t) {
    t.set_dtype("string");
    t.clear_content();
  });
  refuse("holds the byte 2", [](proto::TensorValue& t) {
    t.set_dtype("bool");
    t.set_content("\x01\x02");
  });
}

TEST(ReadingGraphs, RefusesBadPlaces) {
  expect_refused("'/job:' is not a device's name",
                 [](message::Document& d) { node(d, "x").set_device("/job:"); });
  expect_refused("placed with '_a'",
                 [](message::Document& d) { node(d, "x").add_colocated_with("_a"); });
}

TEST(ReadingGraphs, RefusesListsThatDoNotBelongTogether) {
  Graph graph;
  {
    const auto building = graph.as_default();
    const Tensor x = placeholder(kFloat32, Shape::unknown(), "x");
    slice(x, {{.begin = 0, .end = 1}});
    pad(x, {{.before = 1, .after = 1}});
  }
  const auto refuse = [&](std::string_view name, std::string_view list) {
    const std::string bytes = changed(graph, [&](message::Document& d) {
      attr(node(d, name), list).mutable_integers()->clear_values();
    });
    EXPECT_EQ(error_of([&] { Graph::deserialize(bytes); }).code, Code::InvalidArgument);
  };
  for (const std::string_view list : {"begin", "end", "step"}) refuse("Slice", list);
  for (const std::string_view list : {"before", "after"}) refuse("Pad", list);
}

TEST(ReadingGraphs, EscapesWhatItQuotes) {
  expect_refused("node 'a\\x0ab'", [](message::Document& d) { node(d, "c").set_name("a\nb"); });
}

TEST(ReadingGraphs, RefusesFunctionsOfFunctionsWithoutEnd) {
  const std::string bytes = graph_of_depth(8).serialize();
  EXPECT_EQ(Graph::deserialize(bytes).serialize(), bytes);
  EXPECT_ERROR(Code::FailedPrecondition, "more than 32 deep", graph_of_depth(33).serialize());
  const std::string deeper = changed(graph_of_depth(2), [](message::Document& document) {
    message::Function outer;
    for (const message::Function& function : document.functions()) {
      if (function.nodes().rbegin()->op() == "Cond") outer = function;
    }
    for (int i = 0; i < 40; ++i) {
      const std::string inner = outer.name();
      outer.set_name("f" + std::to_string(i));
      attr(*outer.mutable_nodes()->rbegin(), "then_branch").set_function(inner);
      *document.add_functions() = outer;
    }
  });
  EXPECT_ERROR(Code::InvalidArgument, "more than 32 deep", Graph::deserialize(deeper));
}

TEST(ReadingGraphs, RefusesFunctionsThatDoNotFit) {
  const Graph graph = graph_of_depth(2);
  const auto refuse = [&](std::string_view fragment, const Change& change) {
    const std::string bytes = changed(graph, change);
    EXPECT_ERROR(Code::InvalidArgument, fragment, Graph::deserialize(bytes));
  };
  refuse("is not listed before its use", [](message::Document& d) {
    std::reverse(d.mutable_functions()->begin(), d.mutable_functions()->end());
  });
  refuse("belongs to another function",
         [](message::Document& d) { d.mutable_functions(1)->set_name(d.functions(0).name()); });
  refuse("there is no tensor 'nobody'",
         [](message::Document& d) { d.mutable_functions(0)->set_results(0, "nobody"); });
  refuse("there is no node 'nobody'",
         [](message::Document& d) { d.mutable_functions(0)->add_effects("nobody"); });
  refuse("arguments are listed, but the body has",
         [](message::Document& d) { d.mutable_functions(0)->mutable_arguments()->RemoveLast(); });
  refuse("or comes twice", [](message::Document& d) {
    d.mutable_functions(0)->add_arguments(d.functions(0).arguments(0));
  });
  const auto capture = [](message::Document& d) { return d.mutable_functions(0)->add_captures(); };
  refuse("the capture names neither", [&](message::Document& d) { capture(d); });
  refuse("capture 0: [DType]", [&](message::Document& d) { capture(d)->set_variable("v"); });
  refuse("does not fit its argument", [&](message::Document& d) {
    message::Capture& added = *capture(d);
    added.set_variable("v");
    added.mutable_spec()->set_dtype("float32");
  });
  refuse("does not fit its argument",
         [&](message::Document& d) { capture(d)->mutable_iterator()->set_name("it"); });
  refuse("capture 0: [DType]",
         [&](message::Document& d) { capture(d)->mutable_iterator()->add_tensors(); });
  refuse("one branch returns",
         [](message::Document& d) { d.mutable_functions(0)->clear_results(); });
  refuse("the bytes hold a function", [](message::Document& d) { d.clear_nodes(); });
}

TEST(ReadingFunctions, RefusesGraphs) {
  EXPECT_ERROR(Code::InvalidArgument, "hold a graph, not a function",
               internal::deserialize_function(small_graph().serialize(), {}));
}

}  // namespace
}  // namespace cohort::testing
