#include <algorithm>

#include "cohort/readers.h"
#include "data/batch_rows.h"
#include "data/csv_parse.h"
#include "tensor/memory.h"

namespace cohort::data {
namespace internal {
namespace {

constexpr int64_t kMaxBlockRows = 1 << 16;

class CsvNode : public ReaderStage<CsvNode, class CsvReader> {
 public:
  std::string_view kind() const override { return "Csv"; }
  bool has_blocks() const override { return true; }
  std::optional<ElementSpec> spec() const override {
    std::vector<TensorSpec> tensors;
    for (const CsvColumn& column : columns) tensors.push_back({column.dtype, {}});
    return ElementSpec::tuple(std::move(tensors));
  }
  void check() const override {
    if (columns.empty())
      raise(Code::InvalidArgument,
            "[Csv] the list of columns is empty; describe each column that is read");
    if (!csv.select.empty() && csv.select.size() != columns.size()) {
      raise(Code::InvalidArgument,
            "[Csv] {} columns are selected, but {} are described; describe each selected one",
            csv.select.size(), columns.size());
    }
    int64_t last = -1;
    for (const int64_t number : csv.select) {
      if (number <= last) {
        raise(Code::InvalidArgument, "[Csv] selected columns must ascend from 0, got ({})",
              fmt::join(csv.select, ", "));
      }
      last = number;
    }
    for (const CsvColumn& column : columns) {
      if (!is_numeric(column.dtype) && column.dtype != kString) {
        raise(Code::InvalidArgument, "[Csv] a column must hold numbers or strings, got {}",
              to_string(column.dtype));
      }
      if (column.fallback &&
          (column.fallback->dtype() != column.dtype || column.fallback->size() != 1)) {
        raise(
            Code::InvalidArgument,
            "[Csv] the fallback of a {} column must be one value of that dtype, got {} of shape {}",
            to_string(column.dtype), to_string(column.fallback->dtype()),
            column.fallback->shape().to_string());
      }
    }
    if (csv.delimiter == '"' || csv.delimiter == '\n' || csv.delimiter == '\r') {
      raise(Code::InvalidArgument, "[Csv] a quote or a line end cannot be the delimiter");
    }
    check_at_least("Csv", "length of a record", csv.max_record_bytes, 1);
  }
  void fields(Fields& fields) override {
    std::vector<int64_t> dtypes;
    std::vector<int64_t> has_fallback;
    std::vector<Tensor> fallbacks;
    for (const CsvColumn& column : columns) {
      dtypes.push_back(static_cast<int64_t>(column.dtype));
      has_fallback.push_back(column.fallback ? 1 : 0);
      if (column.fallback) fallbacks.push_back(*column.fallback);
    }
    int64_t delimiter = csv.delimiter;
    fields.field("dtypes", dtypes);
    fields.field("has_fallback", has_fallback);
    fields.field("fallbacks", fallbacks);
    fields.field("header", csv.header);
    fields.field("select", csv.select);
    fields.field("delimiter", delimiter);
    fields.field("max_record_bytes", csv.max_record_bytes);
    csv.delimiter = static_cast<char>(delimiter);
    columns.assign(dtypes.size(), {});
    size_t used = 0;
    has_fallback.resize(dtypes.size());
    for (size_t i = 0; i < dtypes.size(); ++i) {
      if (dtypes[i] < 0 || dtypes[i] > static_cast<int64_t>(kString)) {
        raise(Code::InvalidArgument, "[Csv] {} is not the number of a dtype", dtypes[i]);
      }
      columns[i].dtype = static_cast<DType>(dtypes[i]);
      if (has_fallback[i] != 0 && used < fallbacks.size()) columns[i].fallback = fallbacks[used++];
    }
  }

  std::vector<CsvColumn> columns;
  CsvOptions csv;
};

class CsvReader : public RecordReader {
 public:
  CsvReader(const CsvNode& node, std::unique_ptr<ByteSource> file)
      : node_(node),
        bytes_(std::move(file)),
        records_(bytes_, node.csv.delimiter, node.csv.max_record_bytes) {
    for (const CsvColumn& column : node.columns) {
      parsers_.push_back(column.dtype == kString ? nullptr : number_parser(column.dtype));
    }
    if (node.csv.header && records_.next(fields_)) {
      for (const std::string_view name : fields_) names_.emplace_back(name);
      expected_ = fields_.size();
    }
    if (node.csv.select.empty()) expected_ = std::max(expected_, node.columns.size());
    check_columns();
  }

  Block next_block(int64_t most) override {
    throw_if_error(std::exchange(failure_, {}));
    Columns columns(node_.columns, std::min(most, kMaxBlockRows));
    int64_t row = 0;
    failure_ = capture_status([&] {
      while (row < columns.capacity && records_.next(fields_)) {
        store(columns, row);
        ++row;
      }
    });
    if (row == 0) throw_if_error(std::exchange(failure_, {}));
    if (row == 0) return {};
    return {row, columns.finish(row)};
  }

  void position(PositionFields& fields) override {
    fields.status(failure_);
    fields.index(expected_, INT64_MAX);
    records_.position(fields);
  }

 private:
  // The columns of the block that is being read.
  struct Columns {
    Columns(const std::vector<CsvColumn>& described, int64_t rows) : capacity(rows) {
      for (const CsvColumn& column : described) {
        strings.emplace_back();
        if (column.dtype == kString) {
          numbers.emplace_back();
          strings.back().resize(static_cast<size_t>(rows));
        } else {
          numbers.push_back(cohort::internal::allocate_tensor(column.dtype, {rows}));
        }
        widths.push_back(size_of(column.dtype));
      }
    }
    std::byte* number(size_t column, int64_t row) {
      return numbers[column].data + row * widths[column];
    }
    Element finish(int64_t rows) {
      std::vector<Tensor> tensors;
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (widths[i] != 0) {
          tensors.push_back(rows_of(numbers[i].tensor, 0, rows));
        } else {
          strings[i].resize(static_cast<size_t>(rows));
          tensors.push_back(Tensor::from(std::move(strings[i])));
        }
      }
      return Element::tuple(std::move(tensors));
    }

    int64_t capacity;
    std::vector<cohort::internal::WritableTensor> numbers;
    std::vector<std::vector<std::string>> strings;
    std::vector<int64_t> widths;
  };

  size_t field_of(size_t column) const {
    return node_.csv.select.empty() ? column : static_cast<size_t>(node_.csv.select[column]);
  }

  // Checks the header against the columns before any record is read.
  void check_columns() {
    const size_t least = field_of(node_.columns.size() - 1) + 1;
    const bool wrong = node_.csv.select.empty() ? !names_.empty() && names_.size() != least
                                                : !names_.empty() && names_.size() < least;
    if (!wrong) return;
    raise(Code::DataLoss, "[Csv] '{}' line {}: the header names {} columns, but {} are expected",
          bytes_.name(), records_.line(), names_.size(), least);
  }

  void store(Columns& columns, int64_t row) {
    if (expected_ == 0)
      expected_ = std::max(fields_.size(), field_of(node_.columns.size() - 1) + 1);
    if (fields_.size() != expected_) {
      raise(Code::DataLoss, "[Csv] '{}' line {}: {} fields were expected, but there are {}",
            bytes_.name(), records_.line(), expected_, fields_.size());
    }
    for (size_t column = 0; column < parsers_.size(); ++column) {
      const std::string_view text = fields_[field_of(column)];
      const CsvColumn& described = node_.columns[column];
      if (text.empty() && described.fallback) {
        store_fallback(columns, column, row);
      } else if (parsers_[column] == nullptr) {
        columns.strings[column][static_cast<size_t>(row)] = text;
      } else if (!parsers_[column](text, columns.number(column, row))) {
        fail(column, text);
      }
    }
  }

  void store_fallback(Columns& columns, size_t column, int64_t row) const {
    const Tensor& fallback = *node_.columns[column].fallback;
    if (parsers_[column] == nullptr) {
      columns.strings[column][static_cast<size_t>(row)] = fallback.to<std::string>();
    } else {
      std::ranges::copy(raw_bytes(fallback), columns.number(column, row));
    }
  }

  [[noreturn]] void fail(size_t column, std::string_view text) const {
    const size_t field = field_of(column);
    const std::string name = field < names_.size() ? fmt::format(" ('{}')", names_[field]) : "";
    raise(Code::DataLoss, "[Csv] '{}' line {}, column {}{}: {} is not {}", bytes_.name(),
          records_.line(), field + 1, name,
          text.empty() ? "an empty field" : fmt::format("'{}'", text.substr(0, 40)),
          to_string(node_.columns[column].dtype));
  }

  const CsvNode& node_;
  BufferedBytes bytes_;
  CsvRecords records_;
  std::vector<NumberParser> parsers_;  // null for strings
  std::vector<std::string> names_;
  std::vector<std::string_view> fields_;
  size_t expected_ = 0;  // number of fields of each record; 0 if unknown
  Status failure_;       // of the record after the last block
};

}  // namespace

std::shared_ptr<Node> make_csv() { return std::make_shared<CsvNode>(); }

}  // namespace internal

Dataset csv(const Files& files, std::vector<CsvColumn> columns, const CsvOptions& options) {
  return internal::add_stage<internal::CsvNode>(internal::names_of(files), [&](auto& node) {
    node.columns = std::move(columns);
    node.csv = options;
  });
}

}  // namespace cohort::data
