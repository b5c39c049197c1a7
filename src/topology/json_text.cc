#include "topology/json_text.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/raise.h"
#include "base/text.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxJsonBytes = size_t{64} << 20;
constexpr int kDeepestJson = 32;

// Refuses texts that the parser would accept although their author meant something else.
class JsonRules {
 public:
  explicit JsonRules(const JsonSource& source) : source_(source) {}

  template <typename Value>
  bool operator()(int depth, nlohmann::detail::parse_event_t event, const Value& value) {
    using Event = nlohmann::detail::parse_event_t;
    if (depth > kDeepestJson) {
      raise(Code::InvalidArgument, "[{}] {} nests deeper than {} levels", source_.operation,
            source_.name, kDeepestJson);
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) check_key(value.template get<std::string>());
    return true;
  }

 private:
  void check_key(const std::string& key) {
    if (keys_.back().insert(key).second) return;
    raise(Code::InvalidArgument,
          "[{}] {} has the key '{}' twice in one object; remove one of the two", source_.operation,
          source_.name, excerpt(key));
  }

  JsonSource source_;
  std::vector<std::set<std::string>> keys_;
};

// Names the mistake in texts that look like JSON.
std::string_view json_hint(std::string_view text, size_t at) {
  if (trimmed(text).empty()) return "; it is empty";
  const std::string_view before = trimmed(text.substr(0, at));
  const char wrong = at < text.size() ? text[at] : '\0';
  if (wrong == '\'') return "; JSON needs double quotes";
  if (wrong == '#' || wrong == '/') return "; JSON has no comments";
  if ((wrong == '}' || wrong == ']') && before.ends_with(',')) return "; remove the last comma";
  if (at >= text.size()) return "; it ends too early: is a bracket or a quote missing?";
  return "";
}

// The library's message without its own name and number.
std::string_view reason_of(std::string_view what) {
  const size_t end = what.find("] ");
  return end == std::string_view::npos ? what : what.substr(end + 2);
}

template <typename Value>
Value parse(std::string_view text, const JsonSource& source) {
  if (text.size() > kMaxJsonBytes) {
    raise(Code::InvalidArgument, "[{}] {} has {} bytes; expected at most {}", source.operation,
          source.name, text.size(), kMaxJsonBytes);
  }
  try {
    JsonRules rules(source);
    return Value::parse(text.begin(), text.end(), std::ref(rules));
  } catch (const nlohmann::detail::parse_error& error) {
    const size_t at = error.byte > 0 ? error.byte - 1 : 0;
    raise(Code::InvalidArgument, "[{}] {} is not JSON: {}{}", source.operation, source.name,
          reason_of(error.what()), json_hint(text, at));
  } catch (const nlohmann::detail::exception& error) {  // a number that no double holds
    raise(Code::InvalidArgument, "[{}] {} is not JSON: {}", source.operation, source.name,
          reason_of(error.what()));
  }
}

template <typename Value>
std::string_view kind(const Value& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a text";
  if (value.is_boolean()) return "true or false";
  return value.is_null() ? "null" : "a number";
}

}  // namespace

Json parse_json(std::string_view text, const JsonSource& source) {
  return parse<Json>(text, source);
}

nlohmann::json parse_sorted_json(std::string_view text, const JsonSource& source) {
  return parse<nlohmann::json>(text, source);
}

std::string_view kind_of(const Json& value) { return kind(value); }
std::string_view kind_of(const nlohmann::json& value) { return kind(value); }

std::optional<std::string> text_member(const Json& object, const std::string& key,
                                       const JsonSource& source) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  raise(Code::InvalidArgument, "[{}] \"{}\" in {} is {}; expected a text", source.operation, key,
        source.name, kind_of(*found));
}

}  // namespace cohort::internal
