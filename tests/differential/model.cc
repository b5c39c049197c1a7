#include "differential/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace cohort::differential {
namespace {

using enum VariableAggregation;
using PerId = std::array<Elements, kReplicas>;

// How the program ends at a statement that is an error.
struct Refused {
  Code code;
};

size_t count_of(Form form) { return static_cast<size_t>(shape_of(form).num_elements()); }

Elements zip(const Elements& a, const Elements& b, const std::function<double(double, double)>& f) {
  Elements result(a.size());
  std::transform(a.begin(), a.end(), b.begin(), result.begin(), f);
  return result;
}

Elements reduce(ReduceOp op, const PerId& all) {
  Elements total = all[0];
  for (int r = 1; r < kReplicas; ++r) {
    total = zip(total, all[static_cast<size_t>(r)], [op](double a, double b) {
      if (op == ReduceOp::Min) return std::min(a, b);
      return op == ReduceOp::Max ? std::max(a, b) : a + b;
    });
  }
  if (op == ReduceOp::Mean) {
    for (double& each : total) each /= kReplicas;
  }
  return total;
}

Elements written(internal::Write how, const Elements& old, const Elements& value) {
  if (how == internal::Write::Assign) return value;
  return how == internal::Write::AssignAdd ? zip(old, value, std::plus<>())
                                           : zip(old, value, std::minus<>());
}

double scattered(int op, double old, double value) {
  switch (op) {
    case 0:
      return old + value;
    case 1:
      return old - value;
    case 2:
      return old * value;
    case 3:
      return old / value;
    case 4:
      return value;
    case 5:
      return std::min(old, value);
    default:
      return std::max(old, value);
  }
}

// Two rows of the tables.
struct Rows {
  std::array<size_t, 2> indices;
  double value;
};

void scatter(int op, Elements& table, const Rows& rows) {
  for (const size_t row : rows.indices) {
    for (const size_t column : {size_t{0}, size_t{1}}) {
      double& element = table[2 * row + column];
      element = scattered(op, element, rows.value);
    }
  }
}

class Model {
 public:
  Model(const Program& program, Tracing tracing) : program_(program), tracing_(tracing) {
    for (const Declaration& each : program.variables) {
      PerId copies;
      copies.fill(Elements(count_of(each.form), 1));
      variables_.push_back(copies);
    }
  }

  Outcome run() {
    try {
      for (const Round& round : program_.rounds) {
        round.is_step ? step(round) : between_steps(round.statements[0]);
      }
      for (size_t i = 0; i < variables_.size(); ++i) show(fmt::format("v{}", i), variables_[i]);
    } catch (const Refused& refused) {
      outcome_.end = {refused.code, "by the rules"};
    }
    return std::move(outcome_);
  }

 private:
  static PerId per_id(size_t count, const std::function<double(int)>& value) {
    PerId all;
    for (int r = 0; r < kReplicas; ++r) all[static_cast<size_t>(r)] = Elements(count, value(r));
    return all;
  }

  const Declaration& declaration(int variable) const {
    return program_.variables[static_cast<size_t>(variable)];
  }
  PerId& copies(int variable) { return variables_[static_cast<size_t>(variable)]; }

  void show(std::string what, const PerId& values) {
    outcome_.replicas(std::move(what), {values.begin(), values.end()});
  }
  void show_common(std::string what, Elements value) {
    outcome_.observations.push_back({std::move(what), true, {std::move(value)}});
  }

  void step(const Round& round) {
    for (const int first : round.inputs) {
      input_ = per_id(1, [&](int r) { return first + r; });
      for (const Form form : {Form::Scalar, Form::Vector, Form::Table}) {
        reduced_[static_cast<size_t>(form)] = per_id(count_of(form), [](int) { return 0; });
      }
      PerId results = input_;
      for (size_t i = 0; i < round.statements.size(); ++i) {
        const PerId more = in_replicas(round, i);
        for (size_t r = 0; r < kReplicas; ++r) {
          results[r].insert(results[r].end(), more[r].begin(), more[r].end());
        }
      }
      show("step", results);
    }
  }

  PerId in_replicas(const Round& round, size_t index) {
    try {
      return in_replicas(round.statements[index]);
    } catch (const Refused&) {
      if (tracing_ != Tracing::Off) note_later_errors(round, index + 1);
      throw;
    }
  }

  // Tracing finds some errors of a step before any of its statements runs.
  void note_later_errors(const Round& round, size_t first) {
    for (size_t i = first; i < round.statements.size(); ++i) {
      try {
        in_replicas(round.statements[i]);
      } catch (const Refused& refused) {
        outcome_.other_ends.push_back(refused.code);
      }
    }
  }

  PerId in_replicas(const Statement& s) {
    switch (s.kind) {
      case Statement::Write:
        return write(s);
      case Statement::Scatter:
        return scatter_rows(s);
      case Statement::AllReduce: {
        PerId& results = reduced_[static_cast<size_t>(s.form)];
        const Elements total = reduce(s.op, values(s.value, s.form));
        results.fill(total);
        return results;
      }
      case Statement::AllGather:
        return gathered(s);
      case Statement::Train:
        return train(s);
      case Statement::Branch:
        return per_id_of_input([&](double x) { return x > s.number ? 2 * x : x + 1; });
      default:
        // A branch that is not taken still has to be a legal one where functions are traced, so
        // the maker of programs only leaves out writes that are.
        return s.number == 1
                   ? write(s)
                   : per_id(count_of(declaration(s.variable).form), [](int) { return 0; });
    }
  }

  PerId per_id_of_input(const std::function<double(double)>& f) {
    return per_id(1, [&](int r) { return f(input_[static_cast<size_t>(r)][0]); });
  }

  PerId values(const Value& value, Form form) {
    const size_t count = count_of(form);
    switch (value.kind) {
      case Value::OwnLiteral:
      case Value::OwnTensor:
        return per_id(count, [&](int r) { return value.number + r; });
      case Value::Input:
        return per_id(count, [&](int r) { return input_[static_cast<size_t>(r)][0]; });
      case Value::Read:
        return copies(value.variable);
      case Value::Reduced:
        return reduced_[static_cast<size_t>(form)];
      default:
        return per_id(count, [&](int) { return value.number; });
    }
  }

  PerId write(const Statement& s) {
    const Declaration& target = declaration(s.variable);
    PerId given = values(s.value, target.form);
    const bool is_literal = s.value.kind == Value::Literal || s.value.kind == Value::OwnLiteral;
    const bool has_components = s.value.kind == Value::EqualComponents;
    if (has_components && (target.on_read || target.aggregation == None)) {
      throw Refused{Code::InvalidArgument};
    }
    if (!target.on_read) {
      if (target.aggregation == Sum && is_literal) throw Refused{Code::InvalidArgument};
      if (target.aggregation == Sum) given.fill(reduce(ReduceOp::Sum, given));
      if (target.aggregation == Mean) given.fill(reduce(ReduceOp::Mean, given));
      if (target.aggregation == OnlyFirstReplica) given.fill(Elements(given[0]));
    }
    PerId& all = copies(s.variable);
    for (size_t r = 0; r < kReplicas; ++r) all[r] = written(s.write, all[r], given[r]);
    return all;
  }

  PerId scatter_rows(const Statement& s) {
    const Declaration& target = declaration(s.variable);
    const bool merges = target.aggregation == Sum || target.aggregation == Mean;
    if (target.on_read || (merges && s.scatter > 3)) throw Refused{Code::Unimplemented};
    PerId& all = copies(s.variable);
    for (size_t copy = 0; copy < kReplicas; ++copy) {
      for (size_t r = 0; r < kReplicas; ++r) {
        const bool counts = merges || r == (target.aggregation == None ? copy : 0);
        if (!counts) continue;
        const double share = target.aggregation == Mean ? kReplicas : 1;
        scatter(s.scatter, all[copy], {{r, 1}, (s.number + static_cast<double>(r)) / share});
      }
    }
    return all;
  }

  static PerId gathered(const Statement& s) {
    Elements all;
    for (int r = 0; r < kReplicas; ++r) {
      all.insert(all.end(), static_cast<size_t>(r + 1), s.number + r);
    }
    PerId results;
    results.fill(all);
    return results;
  }

  // A traced step has one form: all replicas have gradients of the same weights. A step that runs
  // at once adds up the gradients that there are.
  PerId train(const Statement& s) {
    constexpr unsigned kAll = (1u << kReplicas) - 1;
    for (const unsigned mask : s.masks) {
      const bool differs = mask != 0 && mask != kAll;
      if (differs && tracing_ != Tracing::Off) throw Refused{Code::FailedPrecondition};
    }
    for (size_t w = 0; w < s.masks.size(); ++w) {
      double gradient = 0;
      for (int r = 0; r < kReplicas; ++r) {
        if (s.masks[w] >> r & 1u) gradient += s.number + r;
      }
      for (Elements& copy : variables_[w]) {
        for (double& element : copy) element -= 0.5 * gradient;
      }
    }
    return variables_[0];
  }

  void between_steps(const Statement& s) {
    switch (s.kind) {
      case Statement::CrossWrite:
        return cross_write(s);
      case Statement::CrossRead:
        return show_common("read", cross_read(s.variable));
      case Statement::Reduce:
        return show_common("reduce", reduce(s.op, per_id(1, [&](int r) {
                                              return s.number == 0 ? 3 : s.number == 1 ? 6 : 3 + r;
                                            })));
      case Statement::ReduceRows:
        return show_common("reduce rows", {reduced_rows(s)});
      case Statement::Gather:
        return show_common("gather", gathered(s)[0]);
      default:
        total_ += s.count * (s.count - 1) / 2;
        return show_common("total", {total_});
    }
  }

  void cross_write(const Statement& s) {
    const Declaration& target = declaration(s.variable);
    double number = s.value.number;
    if (target.on_read && target.aggregation == None) throw Refused{Code::InvalidArgument};
    if (target.on_read && target.aggregation == Sum) {
      if (s.write != internal::Write::Assign) throw Refused{Code::InvalidArgument};
      number /= kReplicas;
    }
    for (Elements& copy : copies(s.variable)) {
      copy = written(s.write, copy, Elements(copy.size(), number));
    }
  }

  Elements cross_read(int variable) {
    const Declaration& target = declaration(variable);
    if (!target.on_read || target.aggregation == OnlyFirstReplica) return copies(variable)[0];
    if (target.aggregation == None) throw Refused{Code::InvalidArgument};
    return reduce(target.aggregation == Sum ? ReduceOp::Sum : ReduceOp::Mean, copies(variable));
  }

  // Replica r has r % 3 rows.
  static double reduced_rows(const Statement& s) {
    std::vector<double> all;
    for (int r = 0; r < kReplicas; ++r)
      all.insert(all.end(), static_cast<size_t>(r % 3), s.number + r);
    if (s.op == ReduceOp::Min) return *std::min_element(all.begin(), all.end());
    if (s.op == ReduceOp::Max) return *std::max_element(all.begin(), all.end());
    const double sum = std::accumulate(all.begin(), all.end(), 0.);
    return s.op == ReduceOp::Sum ? sum : sum / static_cast<double>(all.size());
  }

  const Program& program_;
  const Tracing tracing_;
  std::vector<PerId> variables_ = {};
  PerId input_ = {};
  std::array<PerId, 3> reduced_ = {};
  double total_ = 0;
  Outcome outcome_ = {};
};

}  // namespace

Outcome expected(const Program& program, Tracing tracing) { return Model(program, tracing).run(); }

}  // namespace cohort::differential
