#pragma once

// Turns C++ callables into functions on elements. Users include cohort/dataset.h instead.

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "cohort/element.h"
#include "cohort/error.h"
#include "cohort/internal/accepts.h"
#include "cohort/internal/nest.h"

namespace cohort {
template <typename F>
class Function;  // a traced function, cohort/function.h
}  // namespace cohort

namespace cohort::data::internal {

// Arguments distributes the parts of an element over the parameters of a callable. It refers to the
// element, which must outlive it.
class Arguments {
 public:
  // One parameter gets the whole element. Several parameters get the parts of a tuple if their
  // numbers are equal, else all tensors of the element if those numbers are equal. Throws
  // InvalidArgument otherwise.
  Arguments(const Element& element, size_t count);
  // One value gets a part of a map.
  explicit Arguments(const Element& part) : element_(part), mode_(Mode::Part) {}

  // Throws InvalidArgument if the argument is not one tensor.
  const Tensor& tensor(size_t index) const;
  Element element(size_t index) const;

 private:
  enum class Mode : uint8_t { Whole, Parts, Tensors, Part };
  const Element& element_;
  Mode mode_;
};

template <typename T>
struct IsSpan : std::false_type {};
template <typename T>
struct IsSpan<std::span<const T>> : std::true_type {
  using Value = T;
};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {
  using Value = T;
};

// A is Dataset, which is complete where this is instantiated, but not here.
template <typename A, typename Part>
A dataset_in(const Part& part) {
  return part.dataset();
}

template <typename T>
inline constexpr bool kIsArray = false;
template <typename T, size_t N>
inline constexpr bool kIsArray<std::array<T, N>> = true;
template <typename T>
inline constexpr bool kIsTuple = cohort::internal::kIsTuple<T> && !kIsArray<T>;
template <typename T>
inline constexpr bool kIsMap = false;
template <typename T>
inline constexpr bool kIsMap<std::map<std::string, T>> = true;

// Convert the parts of an element to a std::tuple or std::map of C++ values.
template <typename Tuple>
Tuple tuple_of(const Element& element);
template <typename Map>
Map map_of(const Element& element);

// Returns the value of parameter `index` of a callable.
template <typename A>
A argument(const Arguments& from, size_t index) {
  if constexpr (std::same_as<A, Element>) {
    return from.element(index);
  } else if constexpr (std::same_as<A, Dataset>) {
    return dataset_in<A>(from.element(index));
  } else if constexpr (std::same_as<A, Tensor> || std::same_as<A, at::Tensor>) {
    return from.tensor(index);  // <cohort/torch.h> defines the conversion to an at::Tensor
  } else if constexpr (TensorElement<A>) {
    return from.tensor(index).template to<A>();
  } else if constexpr (IsSpan<A>::value) {
    return from.tensor(index).template data<typename IsSpan<A>::Value>();
  } else if constexpr (kIsTuple<A>) {
    return tuple_of<A>(from.element(index));
  } else if constexpr (kIsMap<A>) {
    return map_of<A>(from.element(index));
  } else {
    static_assert(IsVector<A>::value,
                  "an argument must be a Tensor, an Element, a Dataset, a number, a std::string, a "
                  "std::vector, a std::span<const T>, a torch::Tensor where <cohort/torch.h> is "
                  "included, or a tuple or map by name of these types");
    return from.tensor(index).template to_vector<typename IsVector<A>::Value>();
  }
}

template <typename Tuple>
Tuple tuple_of(const Element& element) {
  const Arguments parts(element, std::tuple_size_v<Tuple>);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return Tuple{argument<std::tuple_element_t<I, Tuple>>(parts, I)...};
  }
  (std::make_index_sequence<std::tuple_size_v<Tuple>>());
}

// Throws InvalidArgument if the element is not a map.
void check_is_map(const Element& element);

template <typename Map>
Map map_of(const Element& element) {
  check_is_map(element);
  Map values;
  for (const std::string& name : element.names()) {
    const Element part = element[name];
    values.emplace(name, argument<typename Map::mapped_type>(Arguments(part), 0));
  }
  return values;
}

template <typename R>
Element to_element(R&& value);

template <typename T>
inline constexpr bool kIsTensor =
    std::convertible_to<T, Tensor> && !std::same_as<T, Element> && !TensorElement<T>;

template <typename T>
Tensor scalar_tensor(const T& value) {
  return Tensor::from(std::span<const T>(&value, 1), Shape{});
}

template <typename Tuple>
Element tuple_to_element(Tuple&& value) {
  return std::apply(
      [](auto&&... parts) {
        if constexpr ((kIsTensor<std::remove_cvref_t<decltype(parts)>> && ...)) {
          return Element::tuple(std::vector<Tensor>{Tensor(parts)...});
        } else {
          return Element::tuple(std::vector<Element>{to_element(parts)...});
        }
      },
      std::forward<Tuple>(value));
}

// Converts what a callable returned to an element.
template <typename R>
Element to_element(R&& value) {
  using T = std::remove_cvref_t<R>;
  if constexpr (std::same_as<T, Element>) {
    return std::forward<R>(value);
  } else if constexpr (TensorElement<T>) {
    return Element(scalar_tensor<T>(value));
  } else if constexpr (kIsTuple<T>) {
    return tuple_to_element(std::forward<R>(value));
  } else if constexpr (kIsArray<T>) {
    return Element(Tensor::from(std::span<const typename T::value_type>(value),
                                Shape{static_cast<int64_t>(value.size())}));
  } else if constexpr (IsVector<T>::value) {
    if constexpr (TensorElement<typename T::value_type>) {
      return Element(Tensor::from(T(std::forward<R>(value))));
    } else {
      std::vector<Element> parts;
      for (auto& part : value) parts.push_back(to_element(part));
      return Element::tuple(std::move(parts));
    }
  } else if constexpr (kIsTensor<T>) {
    return Element(static_cast<Tensor>(value));
  } else {
    static_assert(
        requires { typename T::mapped_type; },
        "a function on elements must return a Tensor, an Element, a number, a std::string, "
        "a std::array, a std::vector, or a tuple or map by name of these types; of a "
        "struct, return its fields as a tuple or a map");
    std::vector<std::pair<std::string, Element>> parts;
    for (auto& [name, part] : value) parts.emplace_back(name, to_element(part));
    return Element::map(std::move(parts));
  }
}

template <typename F>
struct Signature : Signature<decltype(&F::operator())> {};
template <typename R, typename... A>
struct Signature<R (*)(A...)> {
  using Result = R;
  using Args = std::tuple<std::remove_cvref_t<A>...>;
};
template <typename R, typename C, typename... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct Signature<R (C::*)(A...) noexcept> : Signature<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct Signature<R (C::*)(A...) const noexcept> : Signature<R (*)(A...)> {};

template <typename F>
concept HasSignature = std::is_pointer_v<F> || requires {
  &F::operator();
};

// The type whose parameters say what a callable takes. For a traced function, that is its body.
template <typename F>
struct BodyOf {
  using Type = F;
};
template <typename F>
struct BodyOf<cohort::Function<F>> {
  using Type = F;
};

// A callable whose parameters are templates is tried with tensors only.
template <typename F, size_t... I>
constexpr bool takes_tensors(std::index_sequence<I...>) {
  return cohort::internal::Accepts<F&, std::tuple_element_t<0, std::tuple<Tensor, decltype(I)>>...>;
}

// Calls `f` with the element unpacked into its parameters.
template <typename F>
decltype(auto) call_with(F& f, const Element& element) {
  using Body = typename BodyOf<F>::Type;
  if constexpr (HasSignature<Body>) {
    using Args = typename Signature<Body>::Args;
    const Arguments from(element, std::tuple_size_v<Args>);
    return [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) {
      return f(argument<std::tuple_element_t<I, Args>>(from, I)...);
    }
    (std::make_index_sequence<std::tuple_size_v<Args>>());
  } else {
    constexpr size_t kArity = takes_tensors<Body>(std::make_index_sequence<1>())   ? 1
                              : takes_tensors<Body>(std::make_index_sequence<2>()) ? 2
                              : takes_tensors<Body>(std::make_index_sequence<3>()) ? 3
                              : takes_tensors<Body>(std::make_index_sequence<4>()) ? 4
                              : takes_tensors<Body>(std::make_index_sequence<5>()) ? 5
                              : takes_tensors<Body>(std::make_index_sequence<6>()) ? 6
                                                                                   : 0;
    static_assert(kArity > 0, "the function must take one to six tensors");
    const Arguments from(element, kArity);
    return [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) {
      return f(Tensor(from.tensor(I))...);
    }
    (std::make_index_sequence<kArity>());
  }
}

// A callable on plain numbers or rows of numbers needs no tensor per element: RowFunction runs it
// over columns of many rows at once.
struct RowFunction {
  struct Column {
    const void* data;
    int64_t row_elements;
  };
  struct Slot {
    DType dtype;
    int64_t elements;  // per row; -1: a scalar; -2, in arguments: a row of any length
  };

  std::vector<Slot> arguments;
  std::vector<Slot> results;
  bool result_is_tuple = false;
  // Computes `count` rows. Returns how many rows were done before one threw, and puts the error
  // into `failure`.
  std::function<int64_t(const Column* in, int64_t count, void* const* out, Status& failure)> run;
};

template <typename T>
concept PlainNumber = TensorElement<T> && !std::same_as<T, std::string>;

template <typename A>
constexpr bool is_row_argument() {
  if constexpr (IsSpan<A>::value) {
    return PlainNumber<typename IsSpan<A>::Value>;
  } else {
    return PlainNumber<A>;
  }
}

template <typename R>
struct RowResult {
  static constexpr bool kValid = PlainNumber<R>;
  static constexpr bool kTuple = false;
  static std::vector<RowFunction::Slot> slots() { return {{dtype_of<R>, -1}}; }
  static void store(const R& value, int64_t row, void* const* out) {
    static_cast<R*>(*out)[row] = value;
  }
};
template <typename T, size_t N>
struct RowResult<std::array<T, N>> {
  static constexpr bool kValid = PlainNumber<T>;
  static constexpr bool kTuple = false;
  static std::vector<RowFunction::Slot> slots() { return {{dtype_of<T>, static_cast<int64_t>(N)}}; }
  static void store(const std::array<T, N>& value, int64_t row, void* const* out) {
    T* to = static_cast<T*>(*out) + row * static_cast<int64_t>(N);
    for (const T& element : value) *to++ = element;
  }
};
template <typename... R>
struct RowResult<std::tuple<R...>> {
  static constexpr bool kValid = (RowResult<R>::kValid && ...) && !(RowResult<R>::kTuple || ...);
  static constexpr bool kTuple = true;
  static std::vector<RowFunction::Slot> slots() { return {RowResult<R>::slots()[0]...}; }
  static void store(const std::tuple<R...>& value, int64_t row, void* const* out) {
    std::apply([&](const R&... part) { (RowResult<R>::store(part, row, out++), ...); }, value);
  }
};
template <typename A, typename B>
struct RowResult<std::pair<A, B>> : RowResult<std::tuple<A, B>> {};

template <typename Args>
struct RowArguments;
template <typename... A>
struct RowArguments<std::tuple<A...>> {
  static constexpr bool kValid = sizeof...(A) > 0 && (is_row_argument<A>() && ...);

  template <typename T>
  static RowFunction::Slot slot() {
    if constexpr (IsSpan<T>::value) {
      return {dtype_of<typename IsSpan<T>::Value>, -2};
    } else {
      return {dtype_of<T>, -1};
    }
  }
  static std::vector<RowFunction::Slot> slots() { return {slot<A>()...}; }

  template <typename T>
  static T load(const RowFunction::Column& column, int64_t row) {
    if constexpr (IsSpan<T>::value) {
      using Value = typename IsSpan<T>::Value;
      return {static_cast<const Value*>(column.data) + row * column.row_elements,
              static_cast<size_t>(column.row_elements)};
    } else {
      return static_cast<const T*>(column.data)[row];
    }
  }

  template <typename F, size_t... I>
  static auto call(F& f, const RowFunction::Column* in, int64_t row, std::index_sequence<I...>) {
    return f(load<A>(in[I], row)...);
  }
};

// Stores how many rows a loop has done, even if an exception ends the loop. The loop counts in
// `row`, which stays in a register.
struct RowCount {
  int64_t& done;
  int64_t row = 0;
  ~RowCount() { done = row; }
};

template <typename F>
std::shared_ptr<const RowFunction> make_row_function(const F& f) {
  if constexpr (HasSignature<F>) {
    using Args = RowArguments<typename Signature<F>::Args>;
    using Result = RowResult<std::remove_cvref_t<typename Signature<F>::Result>>;
    if constexpr (Args::kValid && Result::kValid) {
      auto made = std::make_shared<RowFunction>();
      made->arguments = Args::slots();
      made->results = Result::slots();
      made->result_is_tuple = Result::kTuple;
      made->run = [f](const RowFunction::Column* in, int64_t count, void* const* out,
                      Status& failure) mutable -> int64_t {
        constexpr auto kIndices =
            std::make_index_sequence<std::tuple_size_v<typename Signature<F>::Args>>();
        int64_t done = 0;
        failure = capture_status([&] {
          RowCount rows{done};
          for (; rows.row < count; ++rows.row) {
            Result::store(Args::call(f, in, rows.row, kIndices), rows.row, out);
          }
        });
        return done;
      };
      return made;
    }
  }
  return nullptr;
}

}  // namespace cohort::data::internal
