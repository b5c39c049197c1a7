#include "tensor/print.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "kernels/dtypes.h"
#include "tensor/aten.h"

namespace cohort {
namespace internal {
namespace {

void check_options(const PrintOptions& options) {
  if (options.precision < 0 || options.threshold < 0 || options.edge_items < 1 ||
      options.line_width < 1) {
    raise(
        Code::InvalidArgument,
        "[Print] precision {} and threshold {} must be 0 or more, edge_items {} and line_width {} "
        "1 or more",
        options.precision, options.threshold, options.edge_items, options.line_width);
  }
}

// Which elements of a tensor are shown: all, or the ends of each long dimension.
class Selection {
 public:
  Selection(const Shape& shape, const PrintOptions& options)
      : shape_(shape),
        edge_(options.edge_items),
        shortened_(shape.num_elements() > options.threshold) {}

  int rank() const { return shape_.rank(); }
  bool is_cut(int axis) const { return shortened_ && shape_[axis] > 2 * edge_; }
  int64_t shown(int axis) const { return is_cut(axis) ? 2 * edge_ : shape_[axis]; }
  // Whether "..." comes before the shown part number `i` of dimension `axis`.
  bool gap_before(int axis, int64_t i) const { return is_cut(axis) && i == edge_; }

  // Where the shown elements are, in row-major order, in memory with these strides.
  std::vector<int64_t> offsets(std::span<const int64_t> strides) const {
    std::vector<int64_t> found;
    collect(0, 0, strides, found);
    return found;
  }

 private:
  void collect(int axis, int64_t offset, std::span<const int64_t> strides,
               std::vector<int64_t>& found) const {
    if (axis == rank()) {
      found.push_back(offset);
      return;
    }
    const int64_t skipped = shape_[axis] - shown(axis);
    for (int64_t i = 0; i < shown(axis); ++i) {
      const int64_t index = i < edge_ ? i : i + skipped;
      collect(axis + 1, offset + index * strides[axis], strides, found);
    }
  }

  const Shape shape_;
  const int64_t edge_;
  const bool shortened_;
};

// Sets words into brackets and lines.
class Layout {
 public:
  Layout(const Selection& selection, std::span<const std::string> words, int line_width)
      : selection_(selection), words_(words), line_width_(line_width) {}

  std::string text() && {
    if (selection_.rank() == 0) return words_[0];
    add_axis(0);
    return std::move(text_);
  }

 private:
  // Lines of dimension `axis` begin below the first element, right of its brackets.
  static size_t indent(int axis) { return static_cast<size_t>(axis) + 1; }

  void break_lines(int count, int axis) {
    text_.append(static_cast<size_t>(count), '\n');
    text_.append(indent(axis), ' ');
  }

  void add_axis(int axis) {
    text_ += '[';
    if (axis + 1 == selection_.rank()) {
      add_row(axis);
    } else {
      add_blocks(axis);
    }
    text_ += ']';
  }

  // Parts of higher rank are set off by more empty lines.
  void add_blocks(int axis) {
    const int newlines = selection_.rank() - axis - 1;
    for (int64_t i = 0; i < selection_.shown(axis); ++i) {
      if (i > 0) break_lines(newlines, axis);
      if (selection_.gap_before(axis, i)) {
        text_ += "...";
        break_lines(newlines, axis);
      }
      add_axis(axis + 1);
    }
  }

  void add_row(int axis) {
    column_ = indent(axis);
    for (int64_t i = 0; i < selection_.shown(axis); ++i) {
      if (selection_.gap_before(axis, i)) add_word("...", axis);
      add_word(words_[next_++], axis);
    }
    text_.pop_back();  // the blank after the last word
  }

  // Adds a word and a blank; on a new line when this one is full. Each open bracket will be closed
  // after the row and takes a column.
  void add_word(std::string_view word, int axis) {
    const int64_t limit = int64_t{line_width_} - axis - 1;
    if (static_cast<int64_t>(column_ + word.size()) > limit && column_ > indent(axis)) {
      text_.erase(text_.find_last_not_of(' ') + 1);
      break_lines(1, axis);
      column_ = indent(axis);
    }
    text_.append(word);
    text_ += ' ';
    column_ += word.size() + 1;
  }

  const Selection& selection_;
  const std::span<const std::string> words_;
  const int line_width_;
  std::string text_;
  size_t next_ = 0;    // the word to set next
  size_t column_ = 0;  // of the line being set
};

template <typename T, typename As>
std::vector<As> load_all(const void* data, std::span<const int64_t> offsets) {
  std::vector<As> values;
  values.reserve(offsets.size());
  for (const int64_t offset : offsets) values.push_back(load<T>(data, offset));
  return values;
}

std::vector<std::string> string_words(const Tensor& tensor, const Selection& selection) {
  std::vector<int64_t> strides(static_cast<size_t>(tensor.rank()), 1);
  for (int axis = tensor.rank() - 1; axis > 0; --axis) {
    strides[axis - 1] = strides[axis] * tensor.shape()[axis];
  }
  std::vector<std::string> words;
  for (const int64_t i : selection.offsets(strides)) words.push_back(quote(strings(tensor)[i]));
  return words;
}

std::vector<std::string> bool_words(const void* data, std::span<const int64_t> offsets,
                                    std::string_view true_word) {
  std::vector<std::string> words;
  for (const int64_t offset : offsets) {
    words.emplace_back(load<bool>(data, offset) ? true_word : "False");
  }
  return words;
}

std::vector<std::string> words_of(const Tensor& tensor, const Selection& selection,
                                  const PrintOptions& options) {
  if (tensor.dtype() == kString) return string_words(tensor, selection);
  const at::Tensor value = aten(tensor).cpu();
  const void* data = value.data_ptr();
  const at::IntArrayRef strides = value.strides();
  const std::vector<int64_t> offsets = selection.offsets({strides.data(), strides.size()});
  return visit_numeric(tensor.dtype(), [&]<typename T>(T) {
    if constexpr (std::same_as<T, bool>) {
      return bool_words(data, offsets, selection.rank() == 0 ? "True" : " True");
    } else if constexpr (std::integral<T>) {
      return format_integers(load_all<T, int64_t>(data, offsets));
    } else {
      return format_floats<T>(load_all<T, T>(data, offsets), options.precision);
    }
  });
}

// "[[1. 2.]\n [3. 4.]]", or what stands for values that cannot be shown.
std::string describe_values(const Tensor& tensor) {
  if (tensor.is_symbolic()) return '"' + static_cast<const SymbolBody&>(body(tensor)).name + '"';
  return tensor.dtype() == kResource ? "<resource>" : format_values(tensor);
}

}  // namespace

std::string quote(std::string_view text) {
  constexpr std::string_view kEscaped = "\n\t\r\\'";
  constexpr std::string_view kLetters = "ntr\\'";
  std::string quoted = "'";
  for (const char c : text) {
    if (const size_t known = kEscaped.find(c); known != std::string_view::npos) {
      quoted += {'\\', kLetters[known]};
    } else if (c >= ' ' && c <= '~') {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return quoted + "'";
}

std::string format_like_python(const Tensor& tensor) {
  if (tensor.rank() != 0 || !is_numeric(tensor.dtype())) return format_values(tensor);
  return visit_numeric(tensor.dtype(), [&]<typename T>(T) {
    if constexpr (std::integral<T>) {
      return format_values(tensor);
    } else {
      return format_float(tensor.to<T>());
    }
  });
}

}  // namespace internal

std::string format_values(const Tensor& tensor, const PrintOptions& options) {
  internal::check_options(options);
  if (tensor.is_symbolic()) internal::raise_symbolic(tensor, "the values");
  if (tensor.size() == 0) return "[]";
  const internal::Selection selection(tensor.shape(), options);
  const std::vector<std::string> words = internal::words_of(tensor, selection, options);
  return internal::Layout(selection, words, options.line_width).text();
}

std::string Tensor::to_string() const {
  if (!defined()) return "Tensor(undefined)";
  return fmt::format("Tensor({}, shape={}, dtype={})", internal::describe_values(*this),
                     shape().to_string(), cohort::to_string(dtype()));
}

}  // namespace cohort
