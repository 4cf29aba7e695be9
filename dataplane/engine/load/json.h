// JSON text as a tree whose values know their place: a failed access throws Refused, with the path
// of the value and the nearest line of the P4 source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tiercast::engine {

// Why a program cannot be loaded. Program::load() turns it into a LoadError.
struct Refused {
  std::string construct;
  std::string source;  // "router.p4:42", or empty
};

class Json {
 public:
  enum class Kind { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

  // Throws Refused if the text is not JSON.
  static std::unique_ptr<const Json> parse(std::string_view text);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_integer() const { return kind_ == Kind::kInteger; }

  const std::vector<Json>& items() const;  // of an array
  const Json& item(std::size_t index) const;
  const Json& at(std::string_view key) const;                 // of an object; refused if missing
  const Json* find(std::string_view key) const;               // nullptr if missing or null
  const std::vector<Json>& list(std::string_view key) const;  // an array member; empty if missing
  const std::string& text() const;
  bool boolean() const;
  bool boolean_or(std::string_view key, bool fallback) const;
  // An integer between low and high.
  std::int64_t integer(std::int64_t low, std::int64_t high) const;

  std::string path() const;    // "pipelines[0].tables[2].key"
  std::string source() const;  // An integer from low to high. Throws Refused for anything else.
  [[noreturn]] void refuse(const std::string& what) const;  // "<what> (at <path>)"

 private:
  friend class TreeBuilder;
  void adopt();  // sets the parents of all values below this one
  const char* kind_name() const;

  Kind kind_ = Kind::kNull;
  std::int64_t integer_ = 0;
  std::string text_;
  std::vector<Json> items_;        // of an array, or the values of an object
  std::vector<std::string> keys_;  // of an object
  const Json* parent_ = nullptr;
};

}  // namespace tiercast::engine
