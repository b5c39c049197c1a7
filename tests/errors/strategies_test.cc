#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "errors/catalogue.h"
#include "support/scoped_environment.h"

namespace cohort::test {
namespace {

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

// A reduction of the user that returns what nobody asked for.
class WrongOps : public CrossDeviceOps {
 public:
  std::string to_string() const override { return "WrongOps()"; }

 protected:
  std::vector<std::vector<Tensor>> reduce_dense(ReduceOp, std::span<const ReduceRequest>,
                                                const CommunicationOptions&) override {
    return {{zeros({3})}};
  }
};

struct TwoReplicas {
  MirroredStrategy strategy{"CPU:0", "CPU:1"};
  // A variable with these options, in the strategy's scope.
  Variable variable(const VariableOptions& options) {
    return strategy.create([&] { return Variable(1.f, options); });
  }
};

TEST(Errors, OfStrategies) {
  TwoReplicas two;
  MirroredStrategy& strategy = two.strategy;
  OneDeviceStrategy one("CPU:0");
  const Variable outside(1.f, {.name = "outside"});
  check_section(
      "Strategies: devices, scopes and contexts",
      {
          {[] { MirroredStrategy({"GPU:99"}); }},
          {[] {
             MirroredStrategy({"CPU0", "CPU1"});
           },
           "Write a colon between the type and the number."},
          {[] {
             MirroredStrategy({"CPU:0", "CPU:0"});
           },
           "Name each device once."},
          {[] {
            MirroredStrategy({"/job:worker/task:0/cpu:0", "/job:worker/task:1/cpu:0"});
          }},
          {[] { OneDeviceStrategy("first"); }},
          {[] {
             CentralStorageStrategy(
                 {.compute_devices = {"CPU:0"}, .parameter_device = "CPU:123456"});
           },
           "Choose a device that exists."},
          {[&] {
            const auto scope = strategy.scope();
            one.run([] {});
          }},
          {[&] {
            ReplicaContext* const kept = strategy.run([] { return get_replica_context(); })[0];
            kept->all_reduce(ReduceOp::Sum, Tensor(1.f));
          }},
          {[&] { strategy.run([&] { strategy.reduce(ReduceOp::Sum, Tensor(1.f)); }); }},
          {[&] { strategy.run([&] { strategy.run([] {}); }); }},
          {[&] {
            const auto scope = strategy.scope();
            optim::Sgd().apply_gradients({Tensor(1.f)}, {Variable(1.f)});
          }},
          {[&] {
            const auto scope = strategy.scope();
            set_strategy(&one);
          }},
          {[&] { const auto scope = strategy.extended().colocate_vars_with(outside); },
           "Make the variable inside `strategy.scope()`."},
          {[&] {
            strategy.extended().update(outside, [](Variable copy) { return copy.read_value(); });
          }},
          {[&] { get_strategy().extended().worker_devices(); }},
          {[] {
            const ScopedEnvironment environment(
                ScopedEnvironment::Variables{{"COHORT_STRATEGY", "mirored"}});
            strategy_from_environment();
          }},
      });
}

TEST(Errors, OfReplicas) {
  TwoReplicas two;
  MirroredStrategy& strategy = two.strategy;
  const auto numbers = [&] { return strategy.run([] { return Tensor(float(replica_id())); }); };
  Variable read_sums =
      two.variable({.name = "sums", .synchronization = VariableSynchronization::OnRead});
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1"}});
  Variable shared = central.create([] { return Variable(1.f, {.name = "shared"}); });
  const Variable a = two.variable({.name = "a"});
  const Variable b = two.variable({.name = "b"});
  check_section(
      "Replicas, reductions and distributed values",
      {
          {[&] { (void)(numbers() + 1.f); }},
          {[&] { (void)numbers()[5]; }, "Components are those of this process's replicas, from 0."},
          {[&] { strategy.reduce(ReduceOp::Sum, Tensor(1.f)); }},
          {[] { parse_reduce_op("median"); }},
          {[&] {
             strategy.reduce(ReduceOp::Sum, strategy.run([] { return ones({replica_id() + 1}); }));
           },
           "Give all replicas' values one shape, or `gather()` them."},
          {[&] { strategy.gather(numbers(), 0); }},
          {[&] {
             strategy.run([] {
               if (replica_id() == 0) get_replica_context()->all_reduce(ReduceOp::Sum, Tensor(1.f));
             });
           },
           "Call the same collectives in all replicas, in the same order."},
          {[&] {
            strategy.run([] {
              get_replica_context()->all_reduce(replica_id() == 0 ? ReduceOp::Sum : ReduceOp::Max,
                                                Tensor(1.f));
            });
          }},
          {[&] {
            strategy.run([] { return std::vector<Tensor>(static_cast<size_t>(replica_id() + 1)); });
          }},
          {[&] {
            strategy.run([] {
              if (replica_id() == 1) Variable(1.f, {.name = "extra"});
            });
          }},
          {[&] {
            strategy.run([&] {
              get_replica_context()->merge_call([](Strategy&, const Variable&) {},
                                                replica_id() == 0 ? a : b);
            });
          }},
          {[&] { central.run([&] { shared.assign_add(1.f); }); }},
          {[&] { read_sums.assign_add(1.f); }},
          {[&] { (void)read_sums.read_value(); }},
          {[&] {
            two.variable({.name = "counts", .aggregation = VariableAggregation::Mean}).dtype();
            strategy.create([] {
              return Variable(1, {.name = "counts", .aggregation = VariableAggregation::Mean});
            });
          }},
          {[&] { two.variable({.name = "v", .synchronization = VariableSynchronization::None}); }},
          {[] { reduce_op_of(VariableAggregation::None); }},
          {[] {
            MirroredStrategy({.cross_device_ops = std::make_shared<HierarchicalCopyAllReduce>(-1)});
          }},
          {[] {
             MirroredStrategy own({"CPU:0", "CPU:1"},
                                  {.cross_device_ops = std::make_shared<WrongOps>()});
             own.reduce(ReduceOp::Sum, own.run([] { return Tensor(1.f); }));
           },
           "Correct your `CrossDeviceOps`."},
          {[&] {
            const auto scope = strategy.scope();
            nn::compute_average_loss(ones({4}));
          }},
          {[&] {
            strategy.assign_to_logical_device(ones({4, 6}), 1);
          }},
      });
}

}  // namespace
}  // namespace cohort::test
