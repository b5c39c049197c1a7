#include "differential/execute.h"

#include <fmt/format.h>

#include "cohort/cohort.h"

namespace cohort::differential {
namespace {

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

Tensor filled(const Shape& shape, int number) {
  return fill(shape, Tensor(static_cast<float>(number)));
}

template <typename T>
Tensor write(Variable& variable, internal::Write how, const T& value) {
  if (how == internal::Write::Assign) return variable.assign(value);
  return how == internal::Write::AssignAdd ? variable.assign_add(value)
                                           : variable.assign_sub(value);
}

Tensor scatter(Variable& variable, int op, const IndexedSlices& rows) {
  using Scatter = Tensor (Variable::*)(const IndexedSlices&, Site);
  constexpr Scatter kScatters[] = {&Variable::scatter_add,    &Variable::scatter_sub,
                                   &Variable::scatter_mul,    &Variable::scatter_div,
                                   &Variable::scatter_update, &Variable::scatter_min,
                                   &Variable::scatter_max};
  return (variable.*kScatters[op])(rows, Site::here());
}

// What a program has while it runs.
struct State {
  State(const Program& program, Strategy& strategy) {
    const StrategyScope scope(strategy);
    for (const Declaration& each : program.variables) {
      variables.emplace_back(
          filled(shape_of(each.form), 1),
          VariableOptions{.trainable = each.is_weight,
                          .synchronization = each.on_read ? VariableSynchronization::OnRead
                                                          : VariableSynchronization::Auto,
                          .aggregation = each.aggregation});
    }
    total.emplace(0.f, VariableOptions{.aggregation = VariableAggregation::Sum});
    for (const Form form : {Form::Scalar, Form::Vector, Form::Table}) {
      for (int number = 0; number <= kLargest; ++number) {
        shared[static_cast<size_t>(form)].push_back(filled(shape_of(form), number));
      }
    }
    for (int number = 0; number <= kLargest; ++number) {
      equal.push_back(strategy.distribute_values_from_function(
          [number](ValueContext) { return Tensor(static_cast<float>(number)); }));
    }
  }

  static constexpr int kLargest = 12;
  std::vector<Variable> variables = {};
  std::optional<Variable> total = {};
  std::array<std::vector<Tensor>, 3> shared = {};  // by form and number
  std::vector<PerReplica<Tensor>> equal = {};      // by number
  optim::Sgd optimizer{{.learning_rate = 0.5}};
};

// The statements of one step, in one replica.
class Step {
 public:
  Step(State& state, const Tensor& input) : state_(state), input_(input) {
    for (const Form form : {Form::Scalar, Form::Vector, Form::Table}) {
      reduced_[static_cast<size_t>(form)] = filled(shape_of(form), 0);
    }
  }

  std::vector<Tensor> run(const std::vector<Statement>& statements) {
    std::vector<Tensor> results{input_ + 0.f};
    for (const Statement& statement : statements) results.push_back(run(statement));
    return results;
  }

 private:
  Tensor run(const Statement& s) {
    switch (s.kind) {
      case Statement::Write:
        return write_value(s);
      case Statement::Scatter:
        return scatter_rows(s);
      case Statement::AllReduce:
        return reduced_[static_cast<size_t>(s.form)] =
                   get_replica_context()->all_reduce(s.op, value(s.value, s.form));
      case Statement::AllGather:
        return get_replica_context()->all_gather(
            filled({replica_id() + 1}, s.number + replica_id()), 0);
      case Statement::Train:
        return train(s);
      case Statement::Branch:
        return cond(
            greater(input_, Tensor(static_cast<float>(s.number))), [&] { return input_ * 2.f; },
            [&] { return input_ + 1.f; });
      default:
        return cond(
            Tensor(s.number == 1), [&] { return write_value(s); },
            [&] { return filled(variable(s.variable).shape(), 0); });
    }
  }

  Variable& variable(int index) { return state_.variables[static_cast<size_t>(index)]; }

  Tensor value(const Value& value, Form form) {
    switch (value.kind) {
      case Value::SharedTensor:
        return state_.shared[static_cast<size_t>(form)][static_cast<size_t>(value.number)];
      case Value::EqualTensor:
        return filled(shape_of(form), value.number);
      case Value::OwnTensor:
        return filled(shape_of(form), value.number + replica_id());
      case Value::Input:
        return input_ + filled(shape_of(form), 0);
      case Value::Read:
        return variable(value.variable).read_value();
      default:
        return reduced_[static_cast<size_t>(form)];
    }
  }

  Tensor write_value(const Statement& s) {
    Variable& target = variable(s.variable);
    switch (s.value.kind) {
      case Value::Literal:
        return write(target, s.write, static_cast<float>(s.value.number));
      case Value::OwnLiteral:
        return write(target, s.write, static_cast<float>(s.value.number + replica_id()));
      case Value::EqualComponents:
        return write(target, s.write, state_.equal[static_cast<size_t>(s.value.number)]);
      default: {
        const Shape shape = target.shape();
        const Form form = shape.rank() == 0   ? Form::Scalar
                          : shape.rank() == 1 ? Form::Vector
                                              : Form::Table;
        return write(target, s.write, value(s.value, form));
      }
    }
  }

  Tensor scatter_rows(const Statement& s) {
    const int64_t id = replica_id();
    return scatter(variable(s.variable), s.scatter,
                   {filled({2, 2}, s.number + replica_id()), Tensor({id, int64_t{1}}), {4, 2}});
  }

  Tensor train(const Statement& s) {
    const std::vector<Variable> weights{variable(0), variable(1)};
    GradientTape tape;
    Tensor loss(0.f);
    for (size_t w = 0; w < weights.size(); ++w) {
      if ((s.masks[w] >> replica_id() & 1u) == 0) continue;
      loss = loss + sum(weights[w].read_value() * static_cast<float>(s.number + replica_id()));
    }
    state_.optimizer.apply_gradients(tape.gradient(loss, weights), weights);
    return weights[0].read_value() + 0.f;
  }

  State& state_;
  Tensor input_;
  std::array<Tensor, 3> reduced_;
};

class Execution {
 public:
  Execution(const Program& program, Strategy& strategy, Tracing tracing)
      : program_(program), strategy_(strategy), tracing_(tracing) {}

  Outcome run() {
    outcome_.end = capture_status([&] {
      State state(program_, strategy_);
      for (const Round& round : program_.rounds) {
        round.is_step ? step(state, round) : between_steps(state, round.statements[0]);
      }
      show_variables(state);
    });
    return std::move(outcome_);
  }

 private:
  // Calls `body` in every replica, traced as asked for.
  template <typename Body, typename Argument>
  auto run_replicas(const Body& body, const Argument& argument) {
    using Results = decltype(strategy_.run(body, argument));
    if (tracing_ == Tracing::InReplica) return Results(strategy_.run(function(body), argument));
    if (tracing_ == Tracing::Off) return strategy_.run(body, argument);
    return Results(
        function([&](const Argument& all) { return strategy_.run(body, all); })(argument));
  }

  void step(State& state, const Round& round) {
    const auto body = [&](const Tensor& input) { return Step(state, input).run(round.statements); };
    for (const int first : round.inputs) {
      const auto input = strategy_.distribute_values_from_function([&](ValueContext context) {
        return Tensor(static_cast<float>(first + context.replica_id_in_sync_group));
      });
      const auto results = run_replicas(body, input);
      std::vector<Elements> all;
      for (size_t r = 0; r < results.size(); ++r) all.push_back(joined(results[r]));
      outcome_.replicas("step", std::move(all));
    }
  }

  static Elements joined(const std::vector<Tensor>& values) {
    Elements all;
    for (const Tensor& each : values) {
      const Elements more = elements_of(each);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  void between_steps(State& state, const Statement& s) {
    switch (s.kind) {
      case Statement::CrossWrite: {
        const StrategyScope scope(strategy_);
        Variable& target = state.variables[static_cast<size_t>(s.variable)];
        write(target, s.write, filled(target.shape(), s.value.number));
        return;
      }
      case Statement::CrossRead:
        return outcome_.common("read",
                               state.variables[static_cast<size_t>(s.variable)].read_value());
      case Statement::Reduce:
        return outcome_.common("reduce", reduce(state, s));
      case Statement::ReduceRows:
        return outcome_.common("reduce rows", strategy_.reduce(s.op, rows(s, 3, 0), 0));
      case Statement::Gather:
        return outcome_.common("gather", strategy_.gather(rows(s, kReplicas, 1), 0));
      default:
        return epoch(state, s);
    }
  }

  PerReplica<Tensor> rows(const Statement& s, int limit, int more) {
    return run_replicas(
        [=](const Tensor& number) {
          return fill({replica_id() % limit + more}, number + static_cast<float>(replica_id()));
        },
        Tensor(static_cast<float>(s.number)));
  }

  Tensor reduce(State& state, const Statement& s) {
    const Tensor shared = state.shared[0][3];
    const auto own = [&](const Tensor& three) {
      if (s.number == 0) return shared;
      return s.number == 1 ? three * 2.f : three + static_cast<float>(replica_id());
    };
    return strategy_.reduce(s.op, run_replicas(own, shared));
  }

  void epoch(State& state, const Statement& s) {
    const auto add = [&](const Tensor& numbers) {
      state.total->assign_add(sum(cast(numbers, kFloat32)));
    };
    const data::Dataset numbers = data::range(s.count).batch(s.number);
    for (const auto& batch : strategy_.distribute_dataset(numbers)) add_batch(add, batch);
    outcome_.common("total", state.total->read_value());
  }

  template <typename Add, typename Batch>
  void add_batch(const Add& add, const Batch& batch) {
    tracing_ == Tracing::InReplica ? (void)strategy_.run(function(add), batch)
                                   : (void)strategy_.run(add, batch);
  }

  void show_variables(State& state) {
    for (size_t i = 0; i < state.variables.size(); ++i) {
      std::vector<Elements> copies;
      for (const Variable& copy : strategy_.local_results(state.variables[i])) {
        copies.push_back(elements_of(copy.read_value()));
      }
      outcome_.replicas(fmt::format("v{}", i), std::move(copies));
    }
  }

  const Program& program_;
  Strategy& strategy_;
  const Tracing tracing_;
  Outcome outcome_;
};

}  // namespace

std::string to_string(Tracing tracing) {
  if (tracing == Tracing::Off) return "not traced";
  return tracing == Tracing::InReplica ? "traced in replicas" : "traced around run";
}

Outcome execute(const Program& program, Strategy& strategy, Tracing tracing) {
  return Execution(program, strategy, tracing).run();
}

}  // namespace cohort::differential
