// Indirect meters, and the meaning of a meter's configuration. Direct meters are part of table
// entries.
#include <fmt/format.h>

#include "dataplane/switch/p4runtime/entities/cells.h"
#include "dataplane/switch/p4runtime/entities/entity_kinds.h"

namespace tiercast::vswitch {
namespace {

using p4::config::v1::MeterSpec;

constexpr std::int64_t kMaxUnits = std::int64_t{1} << 53;  // a double represents every integer up
                                                           // to here

}  // namespace

engine::MeterConfig meter_config(ProgramInfo::MeterType type, const p4::v1::MeterConfig& config,
                                 const std::string& place) {
  const auto check = [&](const char* name, std::int64_t value) {
    if (value < 0 || value > kMaxUnits)
      throw invalid(fmt::format("{}: {} {} is not one of 0 to 2^53", place, name, value));
  };
  check("cir", config.cir());
  check("cburst", config.cburst());
  check("pir", config.pir());
  check("pburst", config.pburst());
  check("eburst", config.eburst());
  const bool two_rates = type == MeterSpec::TWO_RATE_THREE_COLOR;
  if (!two_rates && (config.pir() != config.cir() || config.pburst() != config.cburst()))
    throw invalid(place + ": it has a single rate: pir and pburst must equal cir and cburst");
  if (type != MeterSpec::SINGLE_RATE_THREE_COLOR && config.eburst() != 0)
    throw invalid(place + ": eburst is set, which only a single-rate three-colour meter has");
  if (config.pir() < config.cir())
    throw invalid(fmt::format("{}: pir {} is below cir {}", place, config.pir(), config.cir()));
  engine::MeterConfig out;
  out.committed_rate = static_cast<double>(config.cir());
  out.committed_burst = static_cast<std::uint64_t>(config.cburst());
  if (type == MeterSpec::SINGLE_RATE_THREE_COLOR) {
    out.single_rate = true;
    out.peak_burst = static_cast<std::uint64_t>(config.eburst());
  } else {  // with equal rates and equal bursts, two rates give only two colours
    out.peak_rate = static_cast<double>(config.pir());
    out.peak_burst = static_cast<std::uint64_t>(config.pburst());
  }
  return out;
}

p4::v1::MeterConfig meter_message(ProgramInfo::MeterType type, const engine::MeterConfig& config) {
  p4::v1::MeterConfig out;
  out.set_cir(static_cast<std::int64_t>(config.committed_rate));
  out.set_cburst(static_cast<std::int64_t>(config.committed_burst));
  if (type == MeterSpec::SINGLE_RATE_THREE_COLOR) {
    out.set_pir(out.cir());
    out.set_pburst(out.cburst());
    out.set_eburst(static_cast<std::int64_t>(config.peak_burst));
  } else {
    out.set_pir(static_cast<std::int64_t>(config.peak_rate));
    out.set_pburst(static_cast<std::int64_t>(config.peak_burst));
  }
  return out;
}

void write_meter(const Target& target, p4::v1::Update::Type type, const p4::v1::MeterEntry& entry) {
  const ProgramInfo::Array& array = target.info.meter(entry.meter_id());
  const std::string place = fmt::format("meter {}", array.name);
  require_modify(type, place);
  refuse_meter_counters(entry.has_counter_data(), place);
  const engine::CellRange cells = cells_of(array, entry, place);
  std::optional<engine::MeterConfig> config;
  if (entry.has_config()) config = meter_config(array.meter_type, entry.config(), place);
  require(target.pipeline.write_meter(array.name, cells, config));
}

void read_meters(const Target& target, const p4::v1::MeterEntry& request, CellTurn& turn,
                 const EntitySink& sink) {
  if (request.meter_id() != 0) target.info.meter(request.meter_id());
  refuse_meter_counters(request.has_counter_data(), "meter_entry");
  select_cells(target.info.meters(), request.meter_id(), request, turn,
               [&](const ProgramInfo::Array& array, std::uint64_t index) {
                 p4::v1::Entity out;
                 p4::v1::MeterEntry& entry = *out.mutable_meter_entry();
                 entry.set_meter_id(array.id);
                 entry.mutable_index()->set_index(static_cast<std::int64_t>(index));
                 if (const auto config = value_of(target.pipeline.read_meter(array.name, index)))
                   *entry.mutable_config() = meter_message(array.meter_type, *config);
                 sink(std::move(out));
               });
}

}  // namespace tiercast::vswitch
