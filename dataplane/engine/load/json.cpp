#include "dataplane/engine/load/json.h"

#ifdef __SSE2__
#define RAPIDJSON_SSE2  // two thirds of p4c's output are blanks
#endif
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <iterator>

namespace tiercast::engine {

namespace {

constexpr std::size_t kMaxDepth = 400;  // p4c nests expressions, but never this deep

// "line 3, column 3"
std::string place(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t column = offset - (before.rfind('\n') + 1) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace

// Builds the tree from the parser's events, so that the depth can be limited. What an open array or
// object has got so far is on a stack; at its end it takes as much as belongs to it.
class TreeBuilder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, TreeBuilder> {
 public:
  Json& root() { return values_.front(); }

  bool Null() { return put(Json::Kind::kNull); }
  bool Bool(bool value) { return put(Json::Kind::kBool, value ? 1 : 0); }
  bool Int(int value) { return put(Json::Kind::kInteger, value); }
  bool Uint(unsigned value) { return put(Json::Kind::kInteger, value); }
  bool Int64(std::int64_t value) { return put(Json::Kind::kInteger, value); }
  bool Uint64(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return put(Json::Kind::kReal);
    return put(Json::Kind::kInteger, static_cast<std::int64_t>(value));
  }
  bool Double(double) { return put(Json::Kind::kReal); }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    add(Json::Kind::kString).text_ = {text, size};
    return true;
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    keys_.emplace_back(text, size);
    return true;
  }
  bool StartObject() { return ++depth_ <= kMaxDepth; }
  bool EndObject(rapidjson::SizeType size) {
    std::vector<std::string_view> keys = taken(keys_, size);
    close(Json::Kind::kObject, size).keys_ = std::move(keys);
    return true;
  }
  bool StartArray() { return ++depth_ <= kMaxDepth; }
  bool EndArray(rapidjson::SizeType size) {
    close(Json::Kind::kArray, size);
    return true;
  }

 private:
  Json& add(Json::Kind kind) {
    Json& node = values_.emplace_back();
    node.kind_ = kind;
    return node;
  }
  bool put(Json::Kind kind, std::int64_t value = 0) {
    add(kind).integer_ = value;
    return true;
  }
  Json& close(Json::Kind kind, std::size_t size) {
    --depth_;
    std::vector<Json> items = taken(values_, size);
    Json& node = add(kind);
    node.items_ = std::move(items);
    return node;
  }
  template <typename T>
  static std::vector<T> taken(std::vector<T>& stack, std::size_t size) {
    const auto first = stack.end() - static_cast<std::ptrdiff_t>(size);
    std::vector<T> top(std::make_move_iterator(first), std::make_move_iterator(stack.end()));
    stack.erase(first, stack.end());
    return top;
  }

  std::vector<Json> values_;
  std::vector<std::string_view> keys_;
  std::size_t depth_ = 0;
};

JsonDocument::JsonDocument(std::string_view text) {
  // Blanks are skipped sixteen bytes at a time, and the last of these may lie behind the text.
  text_.reserve(text.size() + 16);
  text_ = text;
  TreeBuilder builder;
  rapidjson::InsituStringStream stream(text_.data());  // ends at the first zero byte
  constexpr unsigned kFlags = rapidjson::kParseInsituFlag | rapidjson::kParseValidateEncodingFlag;
  const auto result = rapidjson::Reader().Parse<kFlags>(stream, builder);
  if (result.IsError()) {
    const std::string problem = result.Code() == rapidjson::kParseErrorTermination
                                    ? "nested deeper than " + std::to_string(kMaxDepth) + " levels"
                                    : rapidjson::GetParseError_En(result.Code());
    throw Refused{"not JSON: " + place(text, result.Offset()) + ": " + problem, ""};
  }
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    throw Refused{"not JSON: " + place(text, zero) + ": a zero byte", ""};
  }
  root_ = std::move(builder.root());
  root_.adopt();
}

void Json::adopt() {
  for (Json& child : items_) {
    child.parent_ = this;
    child.adopt();
  }
}

const char* Json::kind_name() const {
  switch (kind_) {
    case Kind::kNull: return "null";
    case Kind::kBool: return "a boolean";
    case Kind::kInteger: return "an integer";
    case Kind::kReal: return "a number that is not a 64-bit integer";
    case Kind::kString: return "a string";
    case Kind::kArray: return "an array";
    case Kind::kObject: return "an object";
  }
  return "unknown";
}

const std::vector<Json>& Json::items() const {
  if (!is_array()) refuse(std::string("expected an array, found ") + kind_name());
  return items_;
}

const Json& Json::item(std::size_t index) const {
  if (index >= items().size()) {
    refuse("expected at least " + std::to_string(index + 1) + " elements, found " +
           std::to_string(items_.size()));
  }
  return items_[index];
}

const Json& Json::at(std::string_view key) const {
  if (!is_object()) refuse(std::string("expected an object, found ") + kind_name());
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (keys_[i] == key) return items_[i];
  }
  refuse("missing attribute `" + std::string(key) + "`");
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) refuse(std::string("expected an object, found ") + kind_name());
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (keys_[i] == key) return items_[i].is_null() ? nullptr : &items_[i];
  }
  return nullptr;
}

const std::vector<Json>& Json::list(std::string_view key) const {
  static const std::vector<Json> none;
  const Json* found = find(key);
  return found == nullptr ? none : found->items();
}

std::string Json::text() const {
  if (!is_string()) refuse(std::string("expected a string, found ") + kind_name());
  return std::string(text_);
}

bool Json::boolean() const {
  if (kind_ != Kind::kBool) refuse(std::string("expected a boolean, found ") + kind_name());
  return integer_ != 0;
}

bool Json::boolean_or(std::string_view key, bool fallback) const {
  const Json* found = find(key);
  return found == nullptr ? fallback : found->boolean();
}

std::int64_t Json::integer(std::int64_t low, std::int64_t high) const {
  if (!is_integer()) refuse(std::string("expected an integer, found ") + kind_name());
  if (integer_ < low || integer_ > high) {
    refuse("expected an integer from " + std::to_string(low) + " to " + std::to_string(high) +
           ", found " + std::to_string(integer_));
  }
  return integer_;
}

std::string Json::path() const {
  if (parent_ == nullptr) return "";
  const auto index = static_cast<std::size_t>(this - parent_->items_.data());
  std::string above = parent_->path();
  if (parent_->is_array()) return above + "[" + std::to_string(index) + "]";
  return (above.empty() ? "" : above + ".") + std::string(parent_->keys_[index]);
}

std::string Json::source() const {
  for (const Json* node = this; node != nullptr; node = node->parent_) {
    if (!node->is_object()) continue;
    const Json* info = node->find("source_info");
    if (info == nullptr || !info->is_object()) continue;
    const Json* file = info->find("filename");
    const Json* line = info->find("line");
    if (file != nullptr && file->is_string() && line != nullptr && line->is_integer()) {
      return file->text() + ":" + std::to_string(line->integer_);
    }
  }
  return "";
}

void Json::refuse(const std::string& what) const {
  const std::string place = path();
  throw Refused{place.empty() ? what : what + " (at " + place + ")", source()};
}

}  // namespace tiercast::engine
