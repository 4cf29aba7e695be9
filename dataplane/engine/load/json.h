// JSON text as a tree whose values know their place: a failed access throws Refused, with the path
// of the value and the nearest line of the P4 source.
#pragma once

#include <cstddef>
#include <cstdint>
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
  std::string text() const;
  bool boolean() const;
  bool boolean_or(std::string_view key, bool fallback) const;
  // An integer between low and high.
  std::int64_t integer(std::int64_t low, std::int64_t high) const;

  std::string path() const;    // "pipelines[0].tables[2].key"
  std::string source() const;  // the nearest line of P4, "router.p4:42", or empty
  [[noreturn]] void refuse(const std::string& what) const;  // "<what> (at <path>)"

 private:
  friend class JsonDocument;
  friend class TreeBuilder;
  void adopt();  // sets the parents of all values below this one
  const char* kind_name() const;

  Kind kind_ = Kind::kNull;
  std::int64_t integer_ = 0;
  std::string_view text_;               // in the document's text
  std::vector<Json> items_;             // of an array, or the values of an object
  std::vector<std::string_view> keys_;  // of an object, in the document's text
  const Json* parent_ = nullptr;
};

class JsonDocument {
 public:
  explicit JsonDocument(std::string_view text);  // throws Refused if the text is not JSON
  JsonDocument(const JsonDocument&) = delete;    // its values know where it is
  JsonDocument& operator=(const JsonDocument&) = delete;

  const Json& root() const { return root_; }

 private:
  std::string text_;  // its escapes are resolved in place
  Json root_;
};

}  // namespace tiercast::engine
