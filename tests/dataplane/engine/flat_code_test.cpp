// Compares flat code with the image that it was made from. Random entries, frames and times go
// through two switches, which must send the same frames at the same times and keep the same state.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "dataplane/engine/api/program.h"
#include "dataplane/engine/image/image.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

std::shared_ptr<const Program> program(const std::string& name) {
  if (!name.starts_with("tiercast")) return load_program(name);
  const std::string path = std::string(TIERCAST_COMPILED) + "/" + name + ".json";
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return Program::load(text.str(), path);
}

class Traffic {
 public:
  explicit Traffic(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }

  // A SIM data packet with random values in some fields, and then some bytes damaged.
  Frame frame() {
    FrameBuilder f;
    const std::uint64_t to = chance(0.5) ? 0xefc00008 + below(3) : 0x0a000001 + below(3);
    const std::uint64_t words[] = {0x4500 + below(4),
                                   80,
                                   below(65536),
                                   chance(0.1) ? 0x2000u : 0u,
                                   (below(8) << 8) + (chance(0.9) ? 17 : 2),
                                   0,
                                   0x0a00,
                                   0x0001 + below(2),
                                   to >> 16,
                                   to & 0xffff};
    std::uint64_t sum = 0;
    for (std::uint64_t w : words) sum += w;
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    f.put(chance(0.5) ? 0x01005e400008 : 0x020000000001, 48).put(0x020000000002, 48);
    f.put(chance(0.95) ? 0x0800 : 0x1234, 16);
    for (int i = 0; i < 10; ++i) f.put(i == 5 && chance(0.95) ? ~sum & 0xffff : words[i], 16);
    f.put(5501, 16).put(5500 + below(2), 16).put(60, 16).put(0, 16);
    f.put(1, 8).put(1 + below(2), 8).put(1, 8).put(0, 8).put(32, 16).put(1, 16);
    f.put(below(4), 8).put(0, 8).put(below(9), 16);
    f.put(below(1000), 32).put(below(1000), 32).put(below(5), 32).put(below(999), 32).put(1, 32);
    Frame frame = f.pad_to(94).take();
    if (chance(0.3)) {
      for (std::uint64_t n = below(4); n > 0; --n) {
        frame[below(frame.size())] = static_cast<std::byte>(below(256));
      }
    }
    if (chance(0.1)) frame.resize(below(frame.size()));
    return frame;
  }

  // A value for a key or an argument: small, or taken from a place in a frame where a field may be.
  std::uint64_t value(unsigned bits) {
    const unsigned width = std::min(bits, 63u);
    const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
    if (chance(0.5)) return below(9) & mask;
    const Frame from = frame();
    std::uint64_t value = 0;
    const std::uint64_t at = below(60);
    for (unsigned i = 0; i < (width + 7) / 8 && at + i < from.size(); ++i) {
      value = value << 8 | std::to_integer<std::uint64_t>(from[at + i]);
    }
    return value & mask;
  }

  TableEntry entry(const Program& program, const TableInfo& table) {
    TableEntry entry;
    for (const KeyField& key : table.keys) {
      const std::uint64_t low = value(key.width);
      const std::size_t bytes = (key.width + 7) / 8;
      switch (key.kind) {
        case MatchKind::kExact: entry.match.push_back(FieldMatch::exact(big_endian(low, 8))); break;
        case MatchKind::kOptional:
          entry.match.push_back(chance(0.5) ? FieldMatch::dont_care()
                                            : FieldMatch::exact(big_endian(low, 8)));
          break;
        case MatchKind::kLpm: {
          const unsigned length = static_cast<unsigned>(below(key.width + 1));
          const unsigned cut = std::min(key.width - length, 63u);
          entry.match.push_back(FieldMatch::lpm(big_endian(low >> cut << cut, 8), length));
          break;
        }
        case MatchKind::kTernary: {
          const std::uint64_t mask = chance(0.5) ? low | value(key.width) : 0;
          entry.match.push_back(
              FieldMatch::ternary(big_endian(low & mask, 8), big_endian(mask, 8)));
          break;
        }
        case MatchKind::kRange:
          entry.match.push_back(FieldMatch::range(big_endian(0, bytes), big_endian(low, 8)));
          break;
      }
    }
    if (table.needs_priority) entry.priority = static_cast<std::int32_t>(1 + below(5));
    const std::string& action = table.actions[below(table.actions.size())];
    entry.action.name = action;
    for (const ActionInfo& info : program.actions()) {
      if (info.name != action || !entry.action.arguments.empty()) continue;
      for (const ActionParameter& p : info.parameters) {
        entry.action.arguments.push_back(big_endian(value(p.width), 8));
      }
    }
    return entry;
  }

 private:
  std::mt19937_64 random_;
};

struct One {
  One(std::shared_ptr<const Program> program, bool flat, const LabelRule& rule)
      : sw(std::move(program), {.flat_code = flat, .label = rule}, out) {
    for (std::uint32_t port = 1; port <= 8; ++port) {
      PortConfig config;
      if (port <= 4) config = {.rate_bps = 1e6 * port, .queue_packets = 5, .delay_ns = 1000};
      EXPECT_OK(sw.set_port(port, config));
    }
  }
  Recorder out;
  Switch sw;
};

// Fields of headers that egress reads, or any where queues hold frames. The lower bits of any of
// them can serve as labels.
std::vector<LabelRule> possible_labels(const Image& image) {
  std::vector<LabelRule> rules;
  for (const Header& header : image.headers) {
    for (const Field& field : header.fields) {
      if (field.width <= kCellBits && !header.metadata &&
          (image.egress != nullptr ||
           std::binary_search(image.egress_reads.begin(), image.egress_reads.end(), field.cell))) {
        rules.push_back({header.name, field.name, [](std::uint64_t value) {
                           return 1 + static_cast<std::uint32_t>(value);
                         }});
      }
    }
  }
  return rules;
}

// Traces every other frame.
class EveryOther : public TraceSink {
 public:
  bool wants(std::uint32_t, std::span<const std::byte>) override { return frames_++ % 2 == 0; }
  void event(const TraceEvent& event) override {
    ++events;
    last = to_json(event);
  }
  std::uint64_t events = 0;
  std::string last;

 private:
  std::uint64_t frames_ = 0;
};

class FlatCode : public ::testing::TestWithParam<const char*> {};

// `sink` belongs to the switch that runs flat code.
void expect_same(const std::shared_ptr<const Program>& code, TraceSink* sink) {
  ASSERT_TRUE(code->image().flat.present());
  const std::vector<LabelRule> labels = possible_labels(code->image());
  std::uint64_t frames_out = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Traffic traffic(seed);
    const LabelRule rule = labels.empty() ? LabelRule{} : labels[seed % labels.size()];
    SCOPED_TRACE("label " + rule.header + "." + rule.field);
    One flat(code, true, rule), image(code, false, rule);
    flat.sw.set_trace(sink);
    std::int64_t now = 0;
    for (int step = 0; step < 1500; ++step) {
      if (step % 10 == 0 && !code->tables().empty()) {
        const TableInfo& table = code->tables()[traffic.below(code->tables().size())];
        if (!table.actions.empty()) {
          const TableEntry entry = traffic.entry(*code, table);
          ASSERT_EQ(flat.sw.insert_entry(table.name, entry).code(),
                    image.sw.insert_entry(table.name, entry).code());
          if (traffic.chance(0.1)) {
            ASSERT_EQ(flat.sw.set_default_action(table.name, entry.action).code(),
                      image.sw.set_default_action(table.name, entry.action).code());
          }
        }
        const auto group = static_cast<std::uint32_t>(1 + traffic.below(8));
        std::vector<Replica> replicas;
        for (std::uint64_t n = traffic.below(5); n > 0; --n) {
          replicas.push_back(
              {static_cast<std::uint32_t>(1 + traffic.below(9)), static_cast<std::uint16_t>(n)});
        }
        (void)flat.sw.insert_multicast_group(group, replicas);
        (void)image.sw.insert_multicast_group(group, replicas);
        (void)flat.sw.insert_clone_session(group, {replicas, 0});
        (void)image.sw.insert_clone_session(group, {replicas, 0});
      }
      const Frame frame = traffic.frame();
      const std::uint32_t port =
          traffic.chance(0.05) ? 510 : static_cast<std::uint32_t>(1 + traffic.below(8));
      now += static_cast<std::int64_t>(traffic.below(200'000));
      flat.sw.receive(port, frame, now);
      image.sw.receive(port, frame, now);
      ASSERT_EQ(flat.out.sent.size(), image.out.sent.size()) << "step " << step;
      ASSERT_EQ(flat.out.punted, image.out.punted) << "step " << step;
      for (std::size_t i = 0; i < flat.out.sent.size(); ++i) {
        ASSERT_EQ(flat.out.sent[i].port, image.out.sent[i].port) << "step " << step;
        ASSERT_EQ(flat.out.sent[i].due_ns, image.out.sent[i].due_ns) << "step " << step;
        ASSERT_EQ(flat.out.sent[i].frame, image.out.sent[i].frame) << "step " << step;
      }
      frames_out += flat.out.sent.size() + flat.out.punted.size();
      flat.out.sent.clear();
      flat.out.punted.clear();
      image.out.sent.clear();
      image.out.punted.clear();
    }
    for (std::uint32_t port = 1; port <= 8; ++port) {
      ASSERT_EQ(flat.sw.label_counts(port), image.sw.label_counts(port)) << "port " << port;
    }
    for (const RegisterInfo& array : code->registers()) {
      for (std::uint64_t i = 0; i < array.size; ++i) {
        ASSERT_EQ(*flat.sw.read_register(array.name, i), *image.sw.read_register(array.name, i))
            << array.name << "[" << i << "]";
      }
    }
    for (const CounterInfo& counter : code->counters()) {
      for (std::uint64_t i = 0; i < counter.size; ++i) {
        ASSERT_EQ(*flat.sw.read_counter(counter.name, i), *image.sw.read_counter(counter.name, i))
            << counter.name << "[" << i << "]";
      }
    }
  }
  EXPECT_GT(frames_out, 50u) << "too few frames left for the comparison to mean something";
}

TEST_P(FlatCode, DoesWhatItsImageDoes) { expect_same(program(GetParam()), nullptr); }

TEST_P(FlatCode, DoesTheSameWhenPacketsAreTraced) {
  EveryOther sink;
  expect_same(program(GetParam()), &sink);
  EXPECT_GT(sink.events, 10'000u) << sink.last;
}

INSTANTIATE_TEST_SUITE_P(Programs, FlatCode,
                         ::testing::Values("tiercast", "router", "matching", "expressions", "again",
                                           "probe", "tiercast_psa", "psa_paths", "psa_externs"),
                         [](const auto& one) { return std::string(one.param); });

// tiercast.p4 drops packets with a wrong IPv4 checksum. Both forms verify it on the header's bytes,
// so comparing the forms would prove nothing. RFC 1071 is the reference, also where the sum is 0 or
// 0xffff.
TEST(Checksum, IsVerifiedAsRfc1071Says) {
  for (const bool flat : {true, false}) {
    SCOPED_TRACE(flat);
    Recorder out;
    Switch::Options options;
    options.flat_code = flat;
    Switch sw(program("tiercast"), options, out);
    for (std::uint32_t port : {1u, 2u}) EXPECT_OK(sw.set_port(port, {}));
    EXPECT_OK(sw.insert_entry("ipv4_host", {{FieldMatch::exact(big_endian(0x0a000002, 4))},
                                            0,
                                            {"forward", {big_endian(2, 2), big_endian(7, 6)}},
                                            {}}));
    std::mt19937_64 random(3);
    int right = 0, wrong = 0;
    for (int n = 0; n < 4000; ++n) {
      std::uint64_t words[] = {0x4500, 60,     random() & 0xffff, 0,      0x4006,
                               0,      0x0a00, random() & 0xffff, 0x0a00, 2};
      const auto folded = [&] {
        std::uint64_t sum = 0;
        for (std::uint64_t w : words) sum += w;
        while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
        return sum;
      };
      // Now and then the other words add up to 0xffff, so that the checksum is 0.
      if (n % 4 == 0) words[2] = (words[2] + 0xffff - folded()) & 0xffff;
      const std::uint64_t good = ~folded() & 0xffff;
      const std::uint64_t choices[] = {good, good ^ 1ull << random() % 16, ~good & 0xffff, 0,
                                       0xffff};
      words[5] = choices[random() % 5];
      const bool forwards = words[5] == good;
      FrameBuilder f;
      f.put(0x020000000001, 48).put(0x020000000002, 48).put(0x0800, 16);
      for (std::uint64_t w : words) f.put(w, 16);
      const std::size_t sent = out.sent.size();
      sw.receive(1, f.pad_to(74).take(), n);
      ASSERT_EQ(out.sent.size() - sent, forwards ? 1u : 0u)
          << "checksum " << words[5] << ", right: " << good << ", identification " << words[2];
      ++(forwards ? right : wrong);
    }
    EXPECT_GT(right, 500);
    EXPECT_GT(wrong, 500);
  }
}

}  // namespace
}  // namespace tiercast::engine
