// Finds what a script names, and reads its values, in the way of p4c's STF runner.
//
// All functions throw NameError, which says what was not found or does not fit.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "dataplane/engine/api/program.h"
#include "dataplane/stf/script.h"

namespace tiercast::stf {

class NameError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The table with this name, otherwise the only one whose name ends with it.
const engine::TableInfo& table_named(const engine::Program& program, const std::string& name);
// The same among the table's actions.
std::string action_named(const engine::TableInfo& table, const std::string& name);
// A counter, register or meter: the one with this name, otherwise the only one of `names` that ends
// with ".name".
std::string extern_named(const std::vector<std::string>& names, const char* what,
                         const std::string& name);

// The key fields in the table's order. A field that `matches` leaves out is 0 (exact) or matches
// everything.
std::vector<engine::FieldMatch> key_of(const engine::TableInfo& table,
                                       const std::vector<Pair>& matches);
engine::ActionCall call_of(const engine::Program& program, const std::string& action,
                           const std::vector<Pair>& arguments);

// "0x..", "0b.." or decimal, of any width, big endian.
engine::Bytes number_bytes(const std::string& text);
// The same as a number, at most max.
std::uint64_t small_number(const std::string& text, std::uint64_t max);

}  // namespace tiercast::stf
