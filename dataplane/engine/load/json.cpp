#include "dataplane/engine/load/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tiercast::engine {

namespace {

constexpr std::size_t kMaxDepth = 400;  // p4c nests expressions, but never this deep

// The same JSON, or the same faults, without the blanks behind punctuation and strings. p4c indents
// its output: two thirds of it are blanks, on which nlohmann's lexer would spend most of its time.
std::string without_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  const auto ends_token = [](char c) {
    return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':' || c == '"';
  };
  std::string kept(text.size(), '\0');
  std::size_t size = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char first = text[at++];
    if (is_blank(first)) {
      while (at < text.size() && is_blank(text[at])) ++at;
      if (size == 0 || !ends_token(kept[size - 1])) kept[size++] = ' ';
      continue;
    }
    kept[size++] = first;
    if (first != '"') continue;
    const std::size_t begin = at;
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    at = std::min(at + 1, text.size());
    size += text.copy(kept.data() + size, at - begin, begin);
  }
  kept.resize(size);
  return kept;
}

}  // namespace

// Builds the tree from nlohmann's parse events, so that the depth can be limited.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Json root;
  std::string error;

  bool null() override { return put(Json::Kind::kNull); }
  bool boolean(bool value) override { return put(Json::Kind::kBool, value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return put(Json::Kind::kInteger, value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) return put(Json::Kind::kReal);
    return put(Json::Kind::kInteger, static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t, const string_t&) override { return put(Json::Kind::kReal); }
  bool string(string_t& value) override {
    add(Json::Kind::kString).text_ = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::Kind::kObject); }
  bool key(string_t& value) override {
    open_.back()->keys_.push_back(std::move(value));
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::Kind::kArray); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    error = e.what();
    return false;
  }

 private:
  Json& add(Json::Kind kind) {
    Json& node = open_.empty() ? root : open_.back()->items_.emplace_back();
    node.kind_ = kind;
    return node;
  }
  bool put(Json::Kind kind, std::int64_t value = 0) {
    add(kind).integer_ = value;
    return true;
  }
  bool open(Json::Kind kind) {
    if (open_.size() == kMaxDepth) {
      error = "nested deeper than " + std::to_string(kMaxDepth) + " levels";
      return false;
    }
    open_.push_back(&add(kind));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;  // nothing is added beside an open value, so it stays where it is
};

std::unique_ptr<const Json> Json::parse(std::string_view text) {
  TreeBuilder builder;
  if (!nlohmann::json::sax_parse(without_blanks(text), &builder)) {
    TreeBuilder failed;  // whose error names the place in the text
    nlohmann::json::sax_parse(text, &failed);
    throw Refused{"not JSON: " + failed.error, ""};
  }
  auto root = std::make_unique<Json>(std::move(builder.root));
  root->adopt();
  return root;
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

const std::string& Json::text() const {
  if (!is_string()) refuse(std::string("expected a string, found ") + kind_name());
  return text_;
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
  return above.empty() ? parent_->keys_[index] : above + "." + parent_->keys_[index];
}

std::string Json::source() const {
  for (const Json* node = this; node != nullptr; node = node->parent_) {
    if (!node->is_object()) continue;
    const Json* info = node->find("source_info");
    if (info == nullptr || !info->is_object()) continue;
    const Json* file = info->find("filename");
    const Json* line = info->find("line");
    if (file != nullptr && file->is_string() && line != nullptr && line->is_integer()) {
      return file->text_ + ":" + std::to_string(line->integer_);
    }
  }
  return "";
}

void Json::refuse(const std::string& what) const {
  const std::string place = path();
  throw Refused{place.empty() ? what : what + " (at " + place + ")", source()};
}

}  // namespace tiercast::engine
