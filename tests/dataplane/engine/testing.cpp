#include "tests/dataplane/engine/testing.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tiercast::engine {

std::string program_text(const std::string& name) {
  const std::string path = std::string(TIERCAST_TEST_P4) + "/" + name + ".json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::shared_ptr<const Program> load_program(const std::string& name) {
  return Program::load(program_text(name), name + ".json");
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

FrameBuilder& FrameBuilder::put(std::uint64_t value, unsigned bits) {
  for (unsigned shift = bits; shift > 0;) {
    shift -= 8;
    frame_.push_back(static_cast<std::byte>(value >> shift));
  }
  return *this;
}

FrameBuilder& FrameBuilder::pad_to(std::size_t bytes) {
  while (frame_.size() < bytes) frame_.push_back(static_cast<std::byte>(frame_.size()));
  return *this;
}

std::uint64_t number_at(const Frame& frame, std::size_t offset, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(frame.at(offset + i));
  }
  return value;
}

Bytes big_endian(std::uint64_t value, std::size_t bytes) {
  Bytes out;
  while (bytes > 0) out.push_back(static_cast<char>(value >> --bytes * 8));
  return out;
}

std::vector<std::uint32_t> Recorder::ports() const {
  std::vector<std::uint32_t> all;
  for (const Sent& s : sent) all.push_back(s.port);
  return all;
}

Bench::Bench(const std::string& program, Switch::Options options)
    : Bench(load_program(program), std::move(options)) {}

Bench::Bench(std::shared_ptr<const Program> program, Switch::Options options)
    : sw(std::move(program), std::move(options), out) {
  for (std::uint32_t port = 1; port <= 8; ++port) EXPECT_OK(sw.set_port(port, {}));
}

void Bench::finish() {
  while (sw.next_event() != Switch::kNever) {
    now = std::max(now, sw.next_event());
    sw.advance(now);
  }
}

}  // namespace tiercast::engine
