#pragma once

// Definitions of the strategies' templates. Not for inclusion by users: include cohort/strategy.h.

#include <functional>
#include <span>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cohort/internal/accepts.h"
#include "cohort/internal/merge_parts.h"
#include "cohort/internal/nest.h"
#include "cohort/internal/replica_function.h"
#include "cohort/internal/values_inl.h"
#include "cohort/strategy.h"

namespace cohort {
namespace internal {

// --- What the templates call

// Throws FailedPrecondition unless the strategy is in cross-replica context, or is the default one.
void require_cross_replica_or_default(const Strategy& strategy, std::string_view what);
size_t num_local_replicas(const Strategy& strategy);
int replica_id(const Strategy& strategy, size_t local_replica);
bool is_single(const Strategy& strategy);
// Opens the scope and calls `body` for each local replica.
void run_replicas(Strategy& strategy, const std::function<void(ReplicaContext&)>& body);
// Each reduces or gathers one leaf. `structure` describes the structure with this leaf, for the
// comparison of the calls.
Tensor reduce_value(Strategy& strategy, ReduceOp op, const DistributedValue& value,
                    const ReduceAxes& axes, const std::string& structure, Site site);
Tensor gather_value(Strategy& strategy, const DistributedValue& value, int axis, Site site);
// The same for all leaves of a replica. `may_lack`: the types of the values allow undefined values,
// here or on other workers.
std::vector<Gradient> all_reduce_values(ReplicaContext& context, ReduceOp op,
                                        const std::vector<Gradient>& values, bool may_lack,
                                        const CommunicationOptions& options,
                                        const std::string& structure, Site site);
Tensor all_gather_value(ReplicaContext& context, const Gradient& value, int axis,
                        const CommunicationOptions& options, const std::string& structure,
                        Site site);
// Calls `body` once with the `own` of each replica, in the order of the replicas. `kind` is the
// same in all replicas that make the same call.
void merge_replicas(ReplicaContext& context, size_t kind, void* own,
                    const std::function<void(std::span<void* const>)>& body);

// --- Reducing leaf by leaf

// The structure of one replica's value.
template <typename T>
std::string describe_distributed(const T& value) {
  if constexpr (PerReplicaType<T>) {
    return describe_structure(value[0]);
  } else {
    return describe_structure(value);
  }
}

struct ReduceLeaf {
  Strategy& strategy;
  ReduceOp op;
  const ReduceAxes& axes;
  Site site;
  std::string structure;  // of the whole value, as describe_structure() returns it

  template <typename T>
  auto operator()(const T& leaf) const {
    if constexpr (PerReplicaType<T>) {
      return of_replicas(leaf);
    } else {
      static_assert(std::constructible_from<DistributedValue, const T&>,
                    "reduce() takes tensors, numbers, gradients, variables and structures of them; "
                    "a struct is a structure when it has a specialisation of cohort::Fields");
      return reduce_value(strategy, op, DistributedValue(leaf), axes, structure, site);
    }
  }

  template <typename T>
  auto of_replicas(const PerReplica<T>& values) const {
    if constexpr (!Nest<T>::kLeaf) {
      std::vector<const T*> all;
      for (size_t r = 0; r < values.size(); ++r) all.push_back(&values[r]);
      return map_leaves(*this, regroup(std::span<const T* const>(all), {.always_wrap = true}));
    } else if constexpr (HasFields<T>) {
      return of_fields(values);
    } else {
      static_assert(std::constructible_from<DistributedValue, const PerReplica<T>&>,
                    "reduce() takes tensors, numbers, gradients, variables and structures of them; "
                    "a struct is a structure when it has a specialisation of cohort::Fields");
      return reduce_value(strategy, op, DistributedValue(values), axes, structure, site);
    }
  }

  template <typename T>
  T of_fields(const PerReplica<T>& values) const {
    T reduced = values[0];
    auto fields = Fields<T>::of(reduced);
    [&]<size_t... I>(std::index_sequence<I...>) {
      (store(std::get<I>(fields), of_replicas(field<I>(values))), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(fields)>>());
    return reduced;
  }

  template <size_t I, typename T>
  static auto field(const PerReplica<T>& values) {
    using Field =
        std::remove_cvref_t<std::tuple_element_t<I, decltype(Fields<T>::of(std::declval<T&>()))>>;
    std::vector<std::optional<Field>> all;
    for (size_t r = 0; r < values.size(); ++r) {
      T copy = values[r];
      all.emplace_back(std::get<I>(Fields<T>::of(copy)));
    }
    return PerReplica<Field>(std::move(all));
  }

  template <typename Field, typename Value>
  static void store(Field& field, Value&& value) {
    if constexpr (TensorElement<Field> && std::same_as<std::remove_cvref_t<Value>, Tensor>) {
      field = value.template to<Field>();
    } else {
      field = std::forward<Value>(value);
    }
  }
};

// --- Leaves of collectives

// The value that a replica contributes for a leaf.
template <typename T>
Gradient as_contribution(const T& leaf) {
  if constexpr (std::same_as<T, DistributedValue>) {
    return leaf.value();
  } else if constexpr (PerReplicaType<T>) {
    return as_contribution(leaf.value());
  } else if constexpr (std::same_as<T, Gradient> || std::same_as<T, IndexedSlices>) {
    return leaf;
  } else {
    static_assert(std::constructible_from<Tensor, const T&>,
                  "all_reduce() and all_gather() take tensors, numbers, gradients, variables and "
                  "structures of them; a struct is a structure when it has a specialisation of "
                  "cohort::Fields");
    return static_cast<Tensor>(leaf);
  }
}
// Whether a leaf of that type may be undefined, and so may differ from replica to replica.
template <typename T>
inline constexpr bool kMayLack = std::same_as<T, Gradient> || std::same_as<T, DistributedValue>;
// The result that replaces the leaf.
template <typename T>
auto as_result(const T&, const Gradient& value) {
  static_assert(!HasFields<T>, "a structure that replicas reduce must have tensors as fields");
  if constexpr (std::same_as<T, IndexedSlices>) {
    return value.slices();
  } else if constexpr (std::same_as<T, Gradient> || std::same_as<T, DistributedValue>) {
    return value;
  } else {
    return value.dense();
  }
}

// --- A dataset's steps as arguments of traced functions

template <>
struct LeafTensors<DistributedElement> {
  static void collect(const DistributedElement& leaf, std::vector<Tensor>& flat);
  static void describe(const DistributedElement& leaf, std::string& text);
  static DistributedElement replace(const DistributedElement& like, std::span<const Tensor> flat,
                                    size_t& next);
};

// --- Local results

// The copies of a variable that are in this process; an ordinary variable itself.
std::vector<Variable> local_copies(const Variable& variable);

struct LocalLeaf {
  size_t index;
  template <typename T>
  auto operator()(const T& leaf) const {
    if constexpr (std::same_as<T, Variable>) {
      const std::vector<Variable> copies = local_copies(leaf);
      return copies.size() == 1 ? copies.front() : copies.at(index);
    } else {
      return SelectLeaf{index}(leaf);
    }
  }
};

}  // namespace internal

namespace internal {

// merge_call() after arrays and functions among the arguments have decayed.
template <typename Merge, typename... Args>
auto merge_decayed(ReplicaContext& context, const Merge& merge, const Args&... args) {
  static_assert(kMergeFits<Merge, Args...>,
                "merge_call(merge, arguments...): the merge function must take a Strategy& and, "
                "for each argument of type T, a PerReplica<T>");
  using Merged = MergeResult<Merge, Args...>;
  using Regroup = RegroupFor<Merge, Args...>;
  constexpr auto kIndices = std::index_sequence_for<Args...>();
  if constexpr (std::is_void_v<Merged>) {
    using Part = MergePart<void, Args...>;
    Part own{{&args...}};
    merge_replicas(context, typeid(Part).hash_code(), &own, [&](std::span<void* const> parts) {
      call_merge<Part, Regroup>(merge, context.strategy(), parts, kIndices);
    });
  } else {
    using Part = MergePart<std::decay_t<Selected<Merged>>, Args...>;
    Part own{{&args...}};
    merge_replicas(context, typeid(Part).hash_code(), &own, [&](std::span<void* const> parts) {
      const Merged merged = call_merge<Part, Regroup>(merge, context.strategy(), parts, kIndices);
      for (size_t r = 0; r < parts.size(); ++r) {
        static_cast<Part*>(parts[r])->result.emplace(select(r, merged));
      }
    });
    return *std::move(own.result);
  }
}

}  // namespace internal

template <typename Merge, typename... Args>
auto ReplicaContext::merge_call(const Merge& merge, const Args&... args) {
  return internal::merge_decayed<Merge, std::decay_t<const Args&>...>(*this, merge, args...);
}

template <typename T>
auto ReplicaContext::all_reduce(ReduceOp op, const T& value, const CommunicationOptions& options,
                                Site site) {
  std::vector<Gradient> leaves;
  bool may_lack = false;
  const auto collect = [&](const auto& leaf) {
    internal::append(leaves, internal::as_contribution(leaf));
    may_lack |= internal::kMayLack<std::remove_cvref_t<decltype(leaf)>>;
  };
  internal::visit_leaves(collect, value);
  const std::vector<Gradient> reduced = internal::all_reduce_values(
      *this, op, leaves, may_lack, options, internal::describe_structure(value), site);
  size_t next = 0;
  return internal::map_leaves(
      [&](const auto& leaf) { return internal::as_result(leaf, reduced[next++]); }, value);
}

template <typename T>
auto ReplicaContext::all_reduce(std::string_view op, const T& value,
                                const CommunicationOptions& options, Site site) {
  return all_reduce(parse_reduce_op(op), value, options, site);
}

template <typename T>
auto ReplicaContext::all_gather(const T& value, int axis, const CommunicationOptions& options,
                                Site site) {
  return internal::map_leaves(
      [&, structure = internal::describe_structure(value)](const auto& leaf) {
        return internal::all_gather_value(*this, internal::as_contribution(leaf), axis, options,
                                          structure, site);
      },
      value);
}

template <typename F, typename... Args>
auto Strategy::run(F&& f, const Args&... args) {
  static_assert(internal::kRunFits<std::remove_reference_t<F>, Args...>,
                "run(f, arguments...): the function cannot be called with these arguments; a "
                "PerReplica<T> arrives as the replica's T, everything else as it is");
  using Result = internal::ReplicaResult<std::remove_reference_t<F>, Args...>;
  const auto call = [&]([[maybe_unused]] size_t replica) -> decltype(auto) {
    return internal::call_unpacked(f, internal::select(replica, args)...);
  };
  if constexpr (std::is_void_v<Result>) {
    internal::run_replicas(*this, [&](ReplicaContext& context) { call(context.local_replica()); });
    return PerReplica<void>(internal::num_local_replicas(*this));
  } else {
    std::vector<std::optional<Result>> results(internal::num_local_replicas(*this));
    internal::run_replicas(*this, [&](ReplicaContext& context) {
      const size_t replica = context.local_replica();
      if constexpr (internal::HoldsLeaf<Result, internal::IsVariable>::value) {
        results[replica] = internal::map_leaves(internal::WholeVariables{replica}, call(replica));
      } else {
        results[replica].emplace(call(replica));
      }
    });
    internal::check_same_structures(results);
    const bool collapsed = results.size() == 1 || internal::all_same(results);
    return PerReplica<Result>(std::move(results), collapsed);
  }
}

template <typename T>
auto Strategy::reduce(ReduceOp op, const T& value, const ReduceAxes& axes, Site site) {
  internal::require_cross_replica_or_default(*this, "reduce");
  return internal::map_leaves(
      internal::ReduceLeaf{*this, op, axes, site, internal::describe_distributed(value)}, value);
}

template <typename T>
auto Strategy::reduce(std::string_view op, const T& value, const ReduceAxes& axes, Site site) {
  return reduce(parse_reduce_op(op), value, axes, site);
}

template <typename T>
Tensor Strategy::gather(const T& value, int axis, Site site) {
  static_assert(std::constructible_from<DistributedValue, const T&>,
                "gather() takes tensors, numbers, gradients and variables; of a structure, gather "
                "each part by itself");
  internal::require_cross_replica_or_default(*this, "gather");
  return internal::gather_value(*this, DistributedValue(value), axis, site);
}

template <typename T>
auto Strategy::local_results(const T& value) const {
  if constexpr (internal::PerReplicaType<T>) {
    std::vector<internal::ComponentOf<T>> all;
    for (size_t r = 0; r < value.size(); ++r) all.push_back(value[r]);
    return all;
  } else if constexpr (std::same_as<T, DistributedValue>) {
    return value.components();
  } else if constexpr (std::same_as<T, Variable>) {
    return internal::local_copies(value);
  } else if constexpr (!internal::Nest<T>::kLeaf) {
    std::vector<internal::MappedLeaves<internal::LocalLeaf, T>> all;
    for (size_t r = 0; r < internal::num_local_replicas(*this); ++r) {
      all.push_back(internal::map_leaves(internal::LocalLeaf{r}, value));
    }
    return all;
  } else {
    return std::vector<T>{value};
  }
}

template <typename F>
auto Strategy::distribute_values_from_function(const F& f) {
  internal::require_cross_replica_or_default(*this, "distribute_values_from_function");
  using T = std::decay_t<std::invoke_result_t<const F&, ValueContext>>;
  std::vector<std::optional<T>> made;
  for (size_t r = 0; r < internal::num_local_replicas(*this); ++r) {
    made.emplace_back(f(ValueContext{internal::replica_id(*this, r), num_replicas_in_sync()}));
  }
  const std::vector<const T*> all = internal::pointers_to(made);
  return internal::regroup(std::span<const T* const>(all),
                           {.always_wrap = true, .one_value = internal::is_single(*this)});
}

template <typename F>
auto Strategy::create(const F& f) {
  const StrategyScope inside(*this);
  return f();
}

}  // namespace cohort
