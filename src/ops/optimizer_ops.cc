// The optimizers' update ops. Their inputs are: the variable's handle, one handle per slot, the
// gradient, for a sparse gradient the row indices, the learning rate and the step number (1 for the
// first update). The constants are attributes; "all_rows" says that a sparse gradient is zero in
// the rows that it does not name.

#include <algorithm>
#include <array>
#include <optional>
#include <variant>
#include <vector>

#include "base/raise.h"
#include "base/timeline.h"
#include "kernels/optimizer_rules.h"
#include "ops/kernel.h"
#include "ops/table_rows.h"
#include "ops/variable_ops.h"
#include "tensor/devices.h"

namespace cohort::internal {
namespace {

// Runs one update: once for a dense gradient, once per row (rows named twice added up) for a sparse
// gradient unless "all_rows" is set. 16-bit variables are updated in float. All cells are locked
// meanwhile.
class OptimizerUpdate {
 public:
  OptimizerUpdate(Kernel& k, const OptimizerRule& rule)
      : k_(k),
        rule_(rule),
        slots_(std::visit([](const auto& of) { return static_cast<size_t>(of.kSlots); }, rule)),
        step_{in(k, k.inputs.size() - 2).item<double>(), in(k, k.inputs.size() - 1).item<double>()},
        values_(slots_ + 1) {}

  void run() {
    // Outside a graph the whole update is one span.
    std::optional<TimelineSpan> span;
    if (k_.run != nullptr && timeline_is_on()) {
      span.emplace("optimizer", "optimizer", traced_step_row(current_device().full_name));
    }
    check_distinct();
    lock_and_update(0);
    k_.outputs[0] = cell(0).read();
  }

 private:
  using Values = std::vector<at::Tensor>;  // the variable's and the slots'

  VariableCell& cell(size_t i) const { return cell_of(k_.inputs[i]); }
  const at::Tensor& gradient() const { return in(k_, slots_ + 1); }

  // Each cell is locked once.
  void check_distinct() const {
    for (size_t i = 0; i <= slots_; ++i) {
      for (size_t other = 0; other < i; ++other) {
        if (&cell(i) != &cell(other)) continue;
        raise(Code::InvalidArgument, "[Optimizer] inputs {} and {} are both variable '{}'", other,
              i, cell(i).name());
      }
    }
  }

  // Holds the cells' memory one inside the other: the variable first, then its slots.
  void lock_and_update(size_t i) {
    cell(i).update([&](const Tensor& value) {
      values_[i] = aten(value);
      i == slots_ ? update() : lock_and_update(i + 1);
      values_[i] = at::Tensor();
    });
  }

  void update() {
    check_slots();
    k_.attrs.flag("sparse") ? update_rows() : update_all();
  }

  // The rules go over all arrays side by side. In a graph sizes may be known only now.
  void check_slots() const {
    for (size_t i = 1; i <= slots_; ++i) {
      if (values_[i].sizes() == values_[0].sizes() && values_[i].scalar_type() == dtype()) continue;
      raise(
          Code::InvalidArgument,
          "[Optimizer] slot {} of variable '{}' must have the shape and the dtype of the variable",
          i, cell(0).name());
    }
  }

  at::ScalarType dtype() const { return values_[0].scalar_type(); }
  int64_t count() const { return values_[0].numel(); }

  void update_all() {
    if (gradient().sizes() != values_[0].sizes()) {
      raise(Code::InvalidArgument,
            "[Optimizer] variable '{}' has {} elements, but its gradient has another shape with {}",
            cell(0).name(), count(), gradient().numel());
    }
    apply_to(gradient().to(dtype()).contiguous(), 0, 0, count());
  }

  void update_rows() {
    const UniqueRows unique(in(k_, slots_ + 2), gradient().to(dtype()));
    const RowUpdate rows(cell(0).name(), values_[0], unique.indices, unique.values);
    if (k_.attrs.flag("all_rows")) return apply_to(unique.among_zeros(values_[0]), 0, 0, count());
    for (int64_t i = 0; i < rows.count; ++i) {
      apply_to(unique.values, rows.rows[i] * rows.width, i * rows.width, rows.width);
    }
  }

  // `size` elements from `offset` of the variable and its slots, with the gradient's from `from`.
  void apply_to(const at::Tensor& gradient, int64_t offset, int64_t from, int64_t size) const {
    if (dtype() == at::kFloat) {
      call(values_, offset, gradient.data_ptr<float>() + from, size);
    } else if (dtype() == at::kDouble) {
      call(values_, offset, gradient.data_ptr<double>() + from, size);
    } else {
      through_float(gradient, offset, from, size);
    }
  }

  void through_float(const at::Tensor& gradient, int64_t offset, int64_t from, int64_t size) const {
    Values parts, wide;
    for (const at::Tensor& value : values_) {
      parts.push_back(value.view({-1}).narrow(0, offset, size));
      wide.push_back(parts.back().to(at::kFloat));
    }
    const at::Tensor slope = gradient.view({-1}).narrow(0, from, size).to(at::kFloat);
    call(wide, 0, slope.data_ptr<float>(), size);
    for (size_t i = 0; i <= slots_; ++i) parts[i].copy_(wide[i]);
  }

  template <typename T>
  void call(const Values& values, int64_t offset, const T* gradient, int64_t size) const {
    constexpr size_t kMaxValues = 4;
    std::array<T*, kMaxValues> arrays = {};
    for (size_t i = 0; i <= slots_; ++i) arrays.at(i) = values[i].data_ptr<T>() + offset;
    update_elements(rule_, step_, arrays.data(), gradient, size);
  }

  Kernel& k_;
  const OptimizerRule rule_;
  const size_t slots_;
  const UpdateStep step_;
  Values values_;
};

// A constant of a rule, and the attribute that holds it.
template <typename Rule>
struct Constant {
  std::string_view name;
  std::variant<double Rule::*, bool Rule::*> field;
};

template <typename Rule, size_t kCount>
constexpr AttrList attrs_for(const Constant<Rule> (&constants)[kCount]) {
  AttrList attrs;
  for (const Constant<Rule>& constant : constants) {
    const bool is_number = constant.field.index() == 0;
    attrs = attrs + AttrList{{constant.name, is_number ? AttrKind::Float : AttrKind::Bool}};
  }
  return attrs;
}

template <typename Rule>
void set_constant(Rule& rule, const Constant<Rule>& constant, const Attrs& attrs) {
  if (const auto* number = std::get_if<double Rule::*>(&constant.field)) {
    rule.*(*number) = attrs.number(constant.name);
  } else {
    rule.*std::get<bool Rule::*>(constant.field) = attrs.flag(constant.name);
  }
}

template <typename Rule, const auto& kConstants>
constexpr OpDef update_op(std::string_view name) {
  return {.name = name,
          .inputs = {Rule::kSlots + 4, Rule::kSlots + 5},
          .dtypes = kNumericTypes | kResourceType,
          .attrs = attrs_for(kConstants) +
                   AttrList{{"sparse", AttrKind::Bool}, {"all_rows", AttrKind::Bool}} +
                   kDeclaredAttrs,
          .infer = infer_declared,
          .compute =
              [](Kernel& k) {
                Rule rule{};
                for (const auto& constant : kConstants) set_constant(rule, constant, k.attrs);
                OptimizerUpdate(k, rule).run();
              },
          .no_gradient_because = "it changes state",
          .traits = Trait::HasEffect | Trait::HostKernel};
}

constexpr Constant<SgdRule> kSgd[] = {{"weight_decay", &SgdRule::weight_decay}};
constexpr Constant<MomentumRule> kMomentum[] = {{"weight_decay", &MomentumRule::weight_decay},
                                                {"momentum", &MomentumRule::momentum},
                                                {"nesterov", &MomentumRule::nesterov},
                                                {"tensorflow", &MomentumRule::tensorflow}};
constexpr Constant<AdagradRule> kAdagrad[] = {{"epsilon", &AdagradRule::epsilon},
                                              {"weight_decay", &AdagradRule::weight_decay},
                                              {"tensorflow", &AdagradRule::tensorflow}};
constexpr Constant<AdamRule> kAdam[] = {
    {"beta1", &AdamRule::beta1},         {"beta2", &AdamRule::beta2},
    {"epsilon", &AdamRule::epsilon},     {"weight_decay", &AdamRule::weight_decay},
    {"decoupled", &AdamRule::decoupled}, {"tensorflow", &AdamRule::tensorflow}};
constexpr Constant<RmsPropRule> kRmsProp[] = {
    {"rho", &RmsPropRule::rho},           {"epsilon", &RmsPropRule::epsilon},
    {"momentum", &RmsPropRule::momentum}, {"weight_decay", &RmsPropRule::weight_decay},
    {"centered", &RmsPropRule::centered}, {"tensorflow", &RmsPropRule::tensorflow}};
constexpr Constant<FtrlRule> kFtrl[] = {{"learning_rate_power", &FtrlRule::learning_rate_power},
                                        {"l1", &FtrlRule::l1},
                                        {"l2", &FtrlRule::l2}};

}  // namespace

extern constexpr OpDef kApplySgd = update_op<SgdRule, kSgd>("ApplySgd");
extern constexpr OpDef kApplyMomentum = update_op<MomentumRule, kMomentum>("ApplyMomentum");
extern constexpr OpDef kApplyAdagrad = update_op<AdagradRule, kAdagrad>("ApplyAdagrad");
extern constexpr OpDef kApplyAdam = update_op<AdamRule, kAdam>("ApplyAdam");
extern constexpr OpDef kApplyRmsProp = update_op<RmsPropRule, kRmsProp>("ApplyRmsProp");
extern constexpr OpDef kApplyFtrl = update_op<FtrlRule, kFtrl>("ApplyFtrl");

}  // namespace cohort::internal
