// Lookups of each match kind, through programs and compared with a model.
#include <algorithm>
#include <map>
#include <random>

#include "dataplane/engine/tables/match_table.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

// The frame of matching.p4.
Frame key(unsigned which, std::uint64_t a, std::uint64_t b, std::uint64_t high = 0,
          std::uint64_t low = 0) {
  return FrameBuilder().put(which, 8).put(a, 16).put(b, 16).put(high, 64).put(low, 64).take();
}

ActionCall to(unsigned port) { return {"MyIngress.to", {big_endian(port, 2)}}; }

class Matching : public ::testing::Test {
 protected:
  std::uint32_t port_of(const Frame& frame) {
    bench.out.sent.clear();
    bench.receive(1, frame);
    return bench.out.sent.size() == 1 ? bench.out.sent[0].port : 0;
  }
  Status ternary(std::uint64_t a, std::uint64_t a_mask, std::uint64_t b, std::uint64_t b_mask,
                 std::int32_t priority, unsigned port) {
    return bench.sw.insert_entry("MyIngress.ternary_table",
                                 {{FieldMatch::ternary(big_endian(a, 2), big_endian(a_mask, 2)),
                                   FieldMatch::ternary(big_endian(b, 2), big_endian(b_mask, 2))},
                                  priority,
                                  to(port),
                                  {}});
  }
  Bench bench{"matching"};
};

TEST_F(Matching, TernaryTakesTheHighestPriority) {
  EXPECT_EQ(port_of(key(0, 0x1234, 1)), 1u);
  EXPECT_OK(ternary(0x1200, 0xff00, 0, 0, 10, 2));
  EXPECT_OK(ternary(0x1234, 0xffff, 0, 0, 5, 3));
  EXPECT_EQ(port_of(key(0, 0x1234, 1)), 2u);
  EXPECT_OK(ternary(0, 0, 7, 0xffff, 20, 4));
  EXPECT_EQ(port_of(key(0, 0x1234, 7)), 4u);
  EXPECT_EQ(port_of(key(0, 0x5555, 7)), 4u);
  EXPECT_EQ(port_of(key(0, 0x5555, 8)), 1u);
  // The same match with another priority is a different entry.
  EXPECT_OK(ternary(0x1200, 0xff00, 0, 0, 30, 5));
  EXPECT_EQ(port_of(key(0, 0x12ff, 7)), 5u);
  EXPECT_EQ(ternary(0x1200, 0xff00, 0, 0, 30, 5).code(), ErrorCode::kAlreadyExists);
}

TEST_F(Matching, TernaryAgreesWithASearchThroughAllEntries) {
  std::mt19937 random(5);
  struct Rule {
    unsigned a, a_mask, b, b_mask;
    std::int32_t priority;
    unsigned port;
  };
  std::vector<Rule> rules;
  for (int i = 0; i < 60; ++i) {
    const unsigned a_mask = 0xffffu << random() % 17 & 0xffff, b_mask = random() % 2 ? 0x000f : 0;
    rules.push_back({static_cast<unsigned>(random()) & a_mask, a_mask,
                     static_cast<unsigned>(random()) & b_mask, b_mask, i + 1,
                     2 + static_cast<unsigned>(random() % 7)});
    const Rule& r = rules.back();
    EXPECT_OK(ternary(r.a, r.a_mask, r.b, r.b_mask, r.priority, r.port));
  }
  const auto remove = [&](std::size_t i) {
    const Rule r = rules[i];
    EXPECT_OK(
        bench.sw.delete_entry("MyIngress.ternary_table",
                              {{FieldMatch::ternary(big_endian(r.a, 2), big_endian(r.a_mask, 2)),
                                FieldMatch::ternary(big_endian(r.b, 2), big_endian(r.b_mask, 2))},
                               r.priority,
                               {},
                               {}}));
    rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 40; ++i) {
      const unsigned a = random() & 0xffff, b = random() & 0xf;
      unsigned wanted = 1;
      for (const Rule& r : rules) {  // priorities rise
        if ((a & r.a_mask) == r.a && (b & r.b_mask) == r.b) wanted = r.port;
      }
      ASSERT_EQ(port_of(key(0, a, b)), wanted) << a << " " << b;
    }
    remove(random() % rules.size());
  }
}

TEST_F(Matching, RangeBoundsAreInclusive) {
  const auto add = [&](unsigned low, unsigned high, unsigned b, std::int32_t priority,
                       unsigned port) {
    return bench.sw.insert_entry("MyIngress.range_table",
                                 {{FieldMatch::range(big_endian(low, 2), big_endian(high, 2)),
                                   FieldMatch::exact(big_endian(b, 2))},
                                  priority,
                                  to(port),
                                  {}});
  };
  EXPECT_OK(add(100, 200, 1, 1, 2));
  EXPECT_OK(add(200, 300, 1, 2, 3));
  EXPECT_EQ(port_of(key(1, 99, 1)), 1u);
  EXPECT_EQ(port_of(key(1, 100, 1)), 2u);
  EXPECT_EQ(port_of(key(1, 199, 1)), 2u);
  EXPECT_EQ(port_of(key(1, 200, 1)), 3u);
  EXPECT_EQ(port_of(key(1, 300, 1)), 3u);
  EXPECT_EQ(port_of(key(1, 301, 1)), 1u);
  EXPECT_EQ(port_of(key(1, 150, 2)), 1u);
  EXPECT_EQ(add(5, 4, 1, 1, 2).code(), ErrorCode::kInvalidArgument);
}

TEST_F(Matching, KeysOf128Bits) {
  const Bytes address("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07", 16);
  EXPECT_OK(bench.sw.insert_entry(
      "MyIngress.wide_exact",
      {{FieldMatch::exact(address), FieldMatch::exact(big_endian(9, 2))}, 0, to(4), {}}));
  EXPECT_EQ(port_of(key(2, 9, 0, 0x20010db800000000, 7)), 4u);
  EXPECT_EQ(port_of(key(2, 9, 0, 0x20010db800000001, 7)), 1u);
  EXPECT_EQ(port_of(key(2, 8, 0, 0x20010db800000000, 7)), 1u);
  // A 128-bit argument reaches its field.
  EXPECT_OK(bench.sw.modify_entry(
      "MyIngress.wide_exact",
      {{FieldMatch::exact(address), FieldMatch::exact(big_endian(9, 2))},
       0,
       {"MyIngress.widen", {Bytes("\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", 16), "\x05"}},
       {}}));
  EXPECT_EQ(port_of(key(2, 9, 0, 0x20010db800000000, 7)), 5u);
  EXPECT_EQ(number_at(bench.out.sent[0].frame, 5, 8), 0xfe80000000000000u);
  EXPECT_EQ(number_at(bench.out.sent[0].frame, 13, 8), 1u);

  const auto prefix = [&](unsigned length, unsigned port) {
    return bench.sw.insert_entry("MyIngress.wide_lpm",
                                 {{FieldMatch::lpm(address, length)}, 0, to(port), {}});
  };
  EXPECT_OK(prefix(32, 2));
  EXPECT_OK(prefix(128, 3));
  EXPECT_OK(prefix(0, 4));
  EXPECT_EQ(port_of(key(3, 0, 0, 0x20010db800000000, 7)), 3u);
  EXPECT_EQ(port_of(key(3, 0, 0, 0x20010db8ffffffff, 7)), 2u);
  EXPECT_EQ(port_of(key(3, 0, 0, 0x20010db900000000, 7)), 4u);
}

TEST_F(Matching, InitialEntriesAreThere) {
  EXPECT_EQ(port_of(key(4, 0x1234, 0)), 4u);
  EXPECT_EQ(port_of(key(4, 0x1134, 0)), 3u);
  EXPECT_EQ(port_of(key(4, 0x2134, 0)), 1u);
  EXPECT_EQ(bench.sw.set_default_action("MyIngress.fixed", to(5)).code(),
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(bench.sw.read_entries("MyIngress.fixed")->size(), 2u);
}

// Until one of them changes its entries, switches of a program share those that it begins with.
TEST(MatchTable, SwitchesOfOneProgramChangeTheirOwnInitialEntries) {
  const std::string name = "MyIngress.fixed";
  const auto program = load_program("matching");
  struct One {
    explicit One(std::shared_ptr<const Program> runs) : sw(std::move(runs), {}, out) {
      for (std::uint32_t port = 1; port <= 8; ++port) EXPECT_OK(sw.set_port(port, {}));
    }
    std::uint32_t port_of(std::uint64_t a) {
      out.sent.clear();
      sw.receive(1, key(4, a, 0), 0);
      return out.sent.empty() ? 0 : out.sent[0].port;
    }
    Recorder out;
    Switch sw;
  };
  One changes(program), removes(program), keeps(program);
  const auto prefix = [](std::uint64_t value, unsigned length, unsigned port) {
    return TableEntry{{FieldMatch::lpm(big_endian(value, 2), length)}, 0, to(port), {}};
  };
  EXPECT_EQ(changes.sw.insert_entry(name, prefix(0x1200, 8, 5)).code(), ErrorCode::kAlreadyExists);
  EXPECT_OK(changes.sw.modify_entry(name, prefix(0x1200, 8, 5)));
  EXPECT_OK(changes.sw.insert_entry(name, prefix(0x2100, 8, 6)));
  EXPECT_OK(removes.sw.delete_entry(name, prefix(0x1000, 4, 3)));
  EXPECT_EQ(removes.sw.delete_entry(name, prefix(0x1000, 4, 3)).code(), ErrorCode::kNotFound);

  EXPECT_EQ(changes.port_of(0x1234), 5u);
  EXPECT_EQ(changes.port_of(0x1134), 3u);
  EXPECT_EQ(changes.port_of(0x2134), 6u);
  EXPECT_EQ(removes.port_of(0x1234), 4u);
  EXPECT_EQ(removes.port_of(0x1134), 1u);
  EXPECT_EQ(keeps.port_of(0x1234), 4u);
  EXPECT_EQ(keeps.port_of(0x1134), 3u);
  EXPECT_EQ(keeps.port_of(0x2134), 1u);
  EXPECT_EQ(changes.sw.read_entries(name)->size(), 3u);
  EXPECT_EQ(removes.sw.read_entries(name)->size(), 1u);
  EXPECT_EQ(keeps.sw.read_entries(name)->size(), 2u);
  EXPECT_EQ(keeps.sw.read_entry(name, prefix(0x1200, 8, 4))->action.arguments[0], big_endian(4, 1));
}

// Only the table, a large one with changes: longest prefix compared with a search.
TEST(MatchTable, LongestPrefixAgreesWithASearch) {
  const auto program = load_program("matching");
  const Image& image = program->image();
  const Table* layout = nullptr;
  for (const Table& t : image.tables) {
    if (t.name == "MyIngress.wide_lpm") layout = &t;
  }
  ASSERT_NE(layout, nullptr);
  MatchTable table(image, *layout);
  std::vector<Cell> phv(image.phv_cells);
  std::mt19937_64 random(6);
  struct Route {
    std::uint64_t high;
    unsigned length;
    unsigned port;
  };
  std::vector<Route> routes;
  const auto entry_of = [&](const Route& r) {
    return TableEntry{
        {FieldMatch::lpm(big_endian(r.high, 8) + Bytes(8, '\0'), r.length)}, 0, to(r.port), {}};
  };
  for (int round = 0; round < 3000; ++round) {
    if (routes.size() < 900 && random() % 3 != 0) {
      const unsigned length = static_cast<unsigned>(random() % 25);
      // Few different values, so that prefixes nest.
      const std::uint64_t high =
          length == 0 ? 0 : (random() & 0xff) << 56 >> (64 - length) << (64 - length);
      const Route r{high, length, 1 + static_cast<unsigned>(random() % 8)};
      const Status status = table.insert(entry_of(r));
      const bool known = std::any_of(routes.begin(), routes.end(), [&](const Route& o) {
        return o.high == r.high && o.length == r.length;
      });
      ASSERT_EQ(status.code(), known ? ErrorCode::kAlreadyExists : ErrorCode::kOk);
      if (!known) routes.push_back(r);
    } else if (!routes.empty()) {
      const std::size_t i = random() % routes.size();
      ASSERT_TRUE(table.remove(entry_of(routes[i])).ok());
      routes.erase(routes.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const std::uint64_t high = random();
    phv[layout->keys[0].cell] = random();
    phv[layout->keys[0].cell + 1] = high;
    const Route* best = nullptr;
    for (const Route& r : routes) {
      if (r.length != 0 && (high ^ r.high) >> (64 - r.length) != 0) continue;
      if (best == nullptr || r.length > best->length) best = &r;
    }
    const MatchTable::Entry* hit = table.lookup(phv.data());
    ASSERT_EQ(hit != nullptr, best != nullptr);
    if (hit != nullptr) {
      ASSERT_EQ(hit->arguments.at(0), best->port);
    }
  }
  EXPECT_EQ(table.size(), routes.size());
}

// Exact keys of one field and of two fields, with insertions, changes and removals, compared with a
// map.
TEST(MatchTable, ExactAgreesWithAMap) {
  const auto program = load_program("router");
  const Image& image = program->image();
  for (const char* name : {"MyIngress.host", "MyIngress.mirror"}) {
    SCOPED_TRACE(name);
    const auto layout = std::find_if(image.tables.begin(), image.tables.end(),
                                     [&](const Table& t) { return t.name == name; });
    ASSERT_NE(layout, image.tables.end());
    const bool host = layout->keys.size() == 1;
    MatchTable table(image, *layout);
    std::vector<Cell> phv(image.phv_cells);
    std::mt19937_64 random(7);
    using KeyOf = std::vector<Cell>;
    std::map<KeyOf, std::pair<std::uint32_t, std::vector<Cell>>> wanted;  // action, arguments
    const auto some_key = [&] {
      KeyOf key;
      // Values at both ends of the field, so that fields that overlap would show.
      for (const Key& k : layout->keys) {
        const Cell low = random() % 12, top = low_mask(k.width);
        key.push_back(random() % 2 == 0 ? low : top - low);
      }
      return key;
    };
    for (int round = 0; round < 20'000; ++round) {
      const KeyOf key = some_key();
      TableEntry entry;
      for (std::size_t i = 0; i < key.size(); ++i) {
        entry.match.push_back(
            FieldMatch::exact(big_endian(key[i], (layout->keys[i].width + 7) / 8)));
      }
      std::vector<Cell> arguments = {random() % 500};
      if (host && random() % 2 == 0) {
        arguments.push_back(random() & 0xffffffffffff);
        entry.action = {"MyIngress.forward",
                        {big_endian(arguments[0], 2), big_endian(arguments[1], 6)}};
      } else if (host) {
        entry.action = {"MyIngress.replicate", {big_endian(arguments[0], 2)}};
      } else {
        entry.action = {"MyIngress.copy_to", {big_endian(arguments[0], 4)}};
      }
      std::uint32_t action = 0;
      while (image.actions[layout->actions[action]].name != entry.action.name) ++action;
      const bool known = wanted.contains(key);
      if (random() % 3 == 0) {
        ASSERT_EQ(table.remove(entry).ok(), known);
        wanted.erase(key);
      } else if (known) {
        ASSERT_TRUE(table.modify(entry).ok());
        wanted[key] = {action, arguments};
      } else {
        ASSERT_TRUE(table.insert(entry).ok());
        wanted[key] = {action, arguments};
      }
      ASSERT_EQ(table.size(), wanted.size());
      const KeyOf asked = some_key();
      for (std::size_t i = 0; i < asked.size(); ++i) phv[layout->keys[i].cell] = asked[i];
      const MatchTable::Outcome outcome = table.apply(phv.data(), 100);
      const auto found = wanted.find(asked);
      ASSERT_EQ(outcome.hit, found != wanted.end());
      if (!outcome.hit) continue;
      ASSERT_EQ(outcome.action, found->second.first);
      for (std::size_t i = 0; i < found->second.second.size(); ++i) {
        ASSERT_EQ(outcome.arguments[i], found->second.second[i]);
      }
    }
    EXPECT_GT(wanted.size(), host ? 5u : 20u);
  }
}

}  // namespace
}  // namespace tiercast::engine
