#include "tests/dataplane/engine/random_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <list>
#include <random>
#include <sstream>

#include "dataplane/engine/image/image.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {

namespace {

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

// Lends the memory in which frames arrive, and keeps the engine to what was agreed.
class Memory : public FrameLender {
 public:
  ~Memory() override { EXPECT_TRUE(loans_.empty()) << loans_.size() << " frames never came back"; }
  LentFrame lend(const Frame& frame) {
    loans_.push_back({frame, {}});
    const auto loan = std::prev(loans_.end());
    loan->bytes.resize(frame.size() + 8);
    return {{loan->bytes.data(), frame.size()}, &*loan, this};
  }
  void take_back(void* handle) override {
    const auto loan =
        std::find_if(loans_.begin(), loans_.end(), [&](const Loan& one) { return &one == handle; });
    ASSERT_NE(loan, loans_.end()) << "a frame that is not lent came back";
    ASSERT_TRUE(std::equal(loan->shown.begin(), loan->shown.end(), loan->bytes.begin()))
        << "a frame changed that somebody else reads";
    loans_.erase(loan);
  }
  // From now on it must not change.
  static void show(const LentFrame& frame) {
    static_cast<Loan*>(frame.handle)->shown.assign(frame.bytes.begin(), frame.bytes.end());
  }

 private:
  struct Loan {
    Frame bytes, shown;
  };
  std::list<Loan> loans_;
};

class LentRecorder : public Recorder {
 public:
  bool transmit_lent(std::uint32_t port, const LentFrame& frame, bool last,
                     std::int64_t due_ns) override {
    transmit(port, frame.bytes, due_ns);
    if (last) {
      frame.lender->take_back(frame.handle);
    } else {
      Memory::show(frame);
      ++shown;
    }
    return true;
  }
  std::uint64_t shown = 0;
};

struct One {
  One(std::shared_ptr<const Program> program, const FormOfCode& form, const LabelRule& rule)
      : lends(form.lends),
        sw(std::move(program), {.flat_code = form.flat_code, .label = rule}, out) {
    for (std::uint32_t port = 1; port <= 8; ++port) {
      PortConfig config;
      if (port <= 4) config = {.rate_bps = 1e6 * port, .queue_packets = 5, .delay_ns = 1000};
      EXPECT_OK(sw.set_port(port, config));
    }
    form.prepare(sw);
  }
  void receive(std::uint32_t port, const Frame& frame, std::int64_t now) {
    lends ? sw.receive(port, memory.lend(frame), now) : sw.receive(port, frame, now);
  }
  const bool lends;
  Memory memory;
  LentRecorder out;
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

}  // namespace

std::shared_ptr<const Program> any_program(const std::string& name) {
  if (!name.starts_with("tiercast")) return load_program(name);
  const std::string path = std::string(TIERCAST_COMPILED) + "/" + name + ".json";
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return Program::load(text.str(), path);
}

void expect_same(const std::shared_ptr<const Program>& code, const FormOfCode& one,
                 const FormOfCode& other, std::uint64_t fewest) {
  const std::vector<LabelRule> labels = possible_labels(code->image());
  // Those that can be changed: p4c makes a table of each statement of a PSA program.
  std::vector<const TableInfo*> tables;
  for (const TableInfo& table : code->tables()) {
    const bool fixed = table.keys.empty() && table.const_default;
    if (!fixed && !table.actions.empty()) tables.push_back(&table);
  }
  std::uint64_t frames_out = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Traffic traffic(seed);
    const LabelRule rule = labels.empty() ? LabelRule{} : labels[seed % labels.size()];
    SCOPED_TRACE("label " + rule.header + "." + rule.field);
    One left(code, one, rule), right(code, other, rule);
    std::int64_t now = 0;
    for (int step = 0; step < 1500; ++step) {
      if (step % 10 == 0 && !tables.empty()) {
        const TableInfo& table = *tables[traffic.below(tables.size())];
        const TableEntry entry = traffic.entry(*code, table);
        ASSERT_EQ(left.sw.insert_entry(table.name, entry).code(),
                  right.sw.insert_entry(table.name, entry).code());
        if (traffic.chance(0.1)) {
          ASSERT_EQ(left.sw.set_default_action(table.name, entry.action).code(),
                    right.sw.set_default_action(table.name, entry.action).code());
        }
        const auto group = static_cast<std::uint32_t>(1 + traffic.below(8));
        std::vector<Replica> replicas;
        for (std::uint64_t n = traffic.below(5); n > 0; --n) {
          replicas.push_back(
              {static_cast<std::uint32_t>(1 + traffic.below(9)), static_cast<std::uint16_t>(n)});
        }
        (void)left.sw.insert_multicast_group(group, replicas);
        (void)right.sw.insert_multicast_group(group, replicas);
        (void)left.sw.insert_clone_session(group, {replicas, 0});
        (void)right.sw.insert_clone_session(group, {replicas, 0});
      }
      const Frame frame = traffic.frame();
      const std::uint32_t port =
          traffic.chance(0.05) ? 510 : static_cast<std::uint32_t>(1 + traffic.below(8));
      now += static_cast<std::int64_t>(traffic.below(200'000));
      left.receive(port, frame, now);
      right.receive(port, frame, now);
      ASSERT_EQ(left.out.sent.size(), right.out.sent.size()) << "step " << step;
      ASSERT_EQ(left.out.punted, right.out.punted) << "step " << step;
      for (std::size_t i = 0; i < left.out.sent.size(); ++i) {
        ASSERT_EQ(left.out.sent[i].port, right.out.sent[i].port) << "step " << step;
        ASSERT_EQ(left.out.sent[i].due_ns, right.out.sent[i].due_ns) << "step " << step;
        ASSERT_EQ(left.out.sent[i].frame, right.out.sent[i].frame) << "step " << step;
      }
      frames_out += left.out.sent.size() + left.out.punted.size();
      left.out.sent.clear();
      left.out.punted.clear();
      right.out.sent.clear();
      right.out.punted.clear();
    }
    for (std::uint32_t port = 1; port <= 8; ++port) {
      ASSERT_EQ(left.sw.label_counts(port), right.sw.label_counts(port)) << "port " << port;
    }
    for (const RegisterInfo& array : code->registers()) {
      for (std::uint64_t i = 0; i < array.size; ++i) {
        ASSERT_EQ(*left.sw.read_register(array.name, i), *right.sw.read_register(array.name, i))
            << array.name << "[" << i << "]";
      }
    }
    for (const CounterInfo& counter : code->counters()) {
      for (std::uint64_t i = 0; i < counter.size; ++i) {
        ASSERT_EQ(*left.sw.read_counter(counter.name, i), *right.sw.read_counter(counter.name, i))
            << counter.name << "[" << i << "]";
      }
    }
  }
  EXPECT_GE(frames_out, fewest) << "too few frames left for the comparison to mean something";
}

}  // namespace tiercast::engine
