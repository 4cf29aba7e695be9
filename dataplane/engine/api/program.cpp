#include "dataplane/engine/api/program.h"

#include <algorithm>

#include "dataplane/engine/arch/architecture.h"
#include "dataplane/engine/arch/psa/psa.h"
#include "dataplane/engine/arch/v1model/v1model.h"
#include "dataplane/engine/flat/flatten.h"
#include "dataplane/engine/flat/optimize.h"
#include "dataplane/engine/image/place_registers.h"
#include "dataplane/engine/load/compiler.h"
#include "dataplane/engine/tables/match_table.h"

namespace tiercast::engine {

namespace {

const Architecture* const kArchitectures[] = {&v1model(), &psa()};

std::unique_ptr<Image> compile(const Json& json, std::string_view name, Compiler::Part part) {
  auto image = std::make_unique<Image>();
  image->name = name;
  Compiler(json, kArchitectures, part, *image).compile();
  plan_headers(*image);
  place_registers(*image);
  flatten(*image);
  optimize(*image);
  find_live_cells(*image);
  return image;
}

}  // namespace

LoadError::LoadError(const std::string& program, const std::string& construct,
                     const std::string& source)
    : std::runtime_error(program + ": " + construct +
                         (source.empty() ? std::string() : ", P4 source " + source)),
      construct_(construct),
      source_(source) {}

Program::Program(std::unique_ptr<const Image> image) : image_(std::move(image)) {}
Program::~Program() = default;

std::shared_ptr<const Program> Program::load(std::string_view text, std::string_view name) {
  try {
    const JsonDocument json(text);
    auto image = compile(json.root(), name, Compiler::Part::kFirst);
    if (image->architecture->parses_twice()) {
      auto egress = compile(json.root(), name, Compiler::Part::kEgress);
      image->phv_cells = egress->phv_cells = std::max(image->phv_cells, egress->phv_cells);
      image->egress = std::move(egress);
    }
    for (std::size_t t = 0; t < image->tables.size(); ++t) {
      auto table = std::make_shared<MatchTable>(*image, image->tables[t]);
      const Status status = table->install_initial_entries();
      if (!status.ok()) {
        throw Refused{"the table's entries: " + status.message(), image->tables[t].source};
      }
      image->table_infos[t].initial_entries = table->read(0);  // in canonical form
      image->first_tables.push_back(std::move(table));
    }
    return std::shared_ptr<const Program>(new Program(std::move(image)));
  } catch (const Refused& refused) {
    throw LoadError(std::string(name), refused.construct, refused.source);
  }
}

const std::string& Program::name() const { return image_->name; }
const std::vector<TableInfo>& Program::tables() const { return image_->table_infos; }
const std::vector<ActionInfo>& Program::actions() const { return image_->action_infos; }
const std::vector<CounterInfo>& Program::counters() const { return image_->counter_infos; }
const std::vector<RegisterInfo>& Program::registers() const { return image_->register_infos; }
const std::vector<MeterInfo>& Program::meters() const { return image_->meter_infos; }
const std::vector<ActionProfileInfo>& Program::action_profiles() const {
  return image_->profile_infos;
}
const std::vector<DigestInfo>& Program::digests() const { return image_->digest_infos; }
const std::vector<ValueSetInfo>& Program::value_sets() const { return image_->value_set_infos; }

}  // namespace tiercast::engine
