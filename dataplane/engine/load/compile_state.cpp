// Compiles what outlives a packet: registers, counters, meters, value sets, digests and action
// profiles.
#include <algorithm>

#include "dataplane/engine/load/compiler.h"

namespace tiercast::engine {

namespace {

constexpr std::uint64_t kMaxCells = 1u << 24;  // 64-bit cells in one array
constexpr std::uint64_t kMaxMeters = 1u << 20;

}  // namespace

void Compiler::compile_state() {
  compile_registers();
  compile_counters();
  compile_meters();
  compile_value_sets();
  compile_digests();
}

void Compiler::compile_registers() {
  for (const Json& node : root_.list("register_arrays")) {
    RegisterArray array;
    array.name = node.at("name").text();
    array.size = static_cast<std::uint64_t>(node.at("size").integer(0, kMaxCells));
    array.width = static_cast<std::uint32_t>(node.at("bitwidth").integer(1, kMaxFieldBits));
    if (array.size * array.cells() > kMaxCells) {
      node.refuse("register `" + array.name + "` is larger than 2^24 cells of 64 bits");
    }
    registers_[array.name] = static_cast<std::uint32_t>(image_.registers.size());
    image_.register_infos.push_back({array.name, array.size, array.width});
    image_.registers.push_back(std::move(array));
  }
}

void Compiler::compile_counters() {
  std::vector<CounterInfo> direct;
  for (const Json& node : root_.list("counter_arrays")) {
    const std::string name = node.at("name").text();
    if (node.boolean_or("is_direct", false)) {
      direct.push_back({name, 0, node.at("binding").text()});
      continue;
    }
    const auto size = static_cast<std::uint64_t>(node.at("size").integer(0, kMaxCells));
    counters_[name] = static_cast<std::uint32_t>(image_.counter_sizes.size());
    image_.counter_sizes.push_back(size);
    image_.counter_infos.push_back({name, size, ""});
  }
  image_.counter_infos.insert(image_.counter_infos.end(), direct.begin(), direct.end());
}

void Compiler::compile_meters() {
  for (const Json& node : root_.list("meter_arrays")) {
    MeterArray meter;
    meter.name = node.at("name").text();
    const std::string type = node.at("type").text();
    if (type != "packets" && type != "bytes") {
      node.at("type").refuse("a meter of type `" + type + "` (packets, bytes)");
    }
    node.at("rate_count").integer(2, 2);
    meter.bytes = type == "bytes";
    std::string table;
    if (node.boolean_or("is_direct", false)) {
      table = node.at("binding").text();
    } else {
      meter.size = static_cast<std::uint64_t>(node.at("size").integer(0, kMaxMeters));
    }
    add_meter(node, std::move(meter), std::move(table));
  }
}

void Compiler::add_meter(const Json& node, MeterArray meter, std::string table) {
  if (meter.size > kMaxMeters) {
    node.refuse("meter `" + meter.name + "` has more than " + std::to_string(kMaxMeters) +
                " cells");
  }
  meters_[meter.name] = static_cast<std::uint32_t>(image_.meters.size());
  image_.meter_infos.push_back({meter.name, meter.size, std::move(table), meter.bytes});
  image_.meters.push_back(std::move(meter));
}

void Compiler::compile_value_sets() {
  for (const Json& node : root_.list("parse_vsets")) {
    ValueSet set;
    set.name = node.at("name").text();
    set.bits = static_cast<std::uint32_t>(node.at("compressed_bitwidth").integer(1, kMaxFieldBits));
    // bmv2 accepts a value set without a size.
    const Json* size = node.find("max_size");
    set.max_size =
        size == nullptr ? UINT32_MAX : static_cast<std::uint64_t>(size->integer(0, UINT32_MAX));
    set.widths = {set.bits};
    value_sets_[set.name] = static_cast<std::uint32_t>(image_.value_sets.size());
    image_.value_set_infos.push_back({set.name, set.max_size, {set.bits}});
    image_.value_sets.push_back(std::move(set));
  }
}

void Compiler::compile_digests() {
  for (const Json& node : root_.list("learn_lists")) {
    Digest digest;
    DigestInfo info;
    digest.name = info.name = node.at("name").text();
    const auto add = [&](const Field& field, const Json& place) {
      if (field.is_varbit) place.refuse("a varbit field in a digest");
      info.widths.push_back(field.width);
      digest.fields.push_back({field, {}});
    };
    for (const Json& element : node.at("elements").items()) {
      const std::string type = element.at("type").text();
      if (type == "field") {
        add(field_at(element.at("value")), element);
      } else if (type == "header") {
        for (const Field& field : image_.headers[header_named(element.at("value"))].fields) {
          add(field, element);
        }
      } else if (type == "hexstr") {
        const std::uint32_t width = std::max(1u, number(element.at("value")).bits);
        Bytes constant = bytes(element.at("value"));
        const std::size_t whole = (width + 7) / 8;
        constant.insert(0, whole - std::min(whole, constant.size()), '\0');
        DigestField& field = digest.fields.emplace_back();
        field.field.width = width;
        field.constant = constant.substr(constant.size() - whole);
        info.widths.push_back(width);
      } else {
        element.refuse("a digest's field of type `" + type + "` (field, header, hexstr)");
      }
    }
    digests_[node.at("id").integer(0, INT32_MAX)] =
        static_cast<std::uint32_t>(image_.digests.size());
    image_.digests.push_back(std::move(digest));
    image_.digest_infos.push_back(std::move(info));
  }
}

void Compiler::compile_action_profile(const Json& node) {
  ActionProfile profile;
  ActionProfileInfo info;
  profile.name = info.name = node.at("name").text();
  profile.max_size = info.max_size =
      static_cast<std::uint64_t>(node.at("max_size").integer(0, INT64_MAX));
  if (const Json* selector = node.find("selector")) {
    info.selector = true;
    Calculation hash = calculation(selector->at("algo"), selector->at("input"));
    hash.name = profile.name;
    profile.hash = add_calculation(std::move(hash));
  }
  if (!profiles_.emplace(profile.name, image_.profiles.size()).second) {
    node.refuse("two action profiles are named `" + profile.name + "`");
  }
  image_.profiles.push_back(std::move(profile));
  image_.profile_infos.push_back(std::move(info));
}

}  // namespace tiercast::engine
