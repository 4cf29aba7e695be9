// Random entries, frames and times through two switches that run the same program in different
// forms of code. They must send the same frames at the same times and keep the same state.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dataplane/engine/api/program.h"
#include "dataplane/engine/api/switch.h"

namespace tiercast::engine {

// A program of tests/data/p4, or of p4src/compiled if its name begins with "tiercast".
std::shared_ptr<const Program> any_program(const std::string& name);

// One of the two: the form in which it is made, and what is done to it before the first packet.
struct FormOfCode {
  bool flat_code = true;
  std::function<void(Switch&)> prepare = [](Switch&) {};
  bool lends = false;  // frames arrive in lent memory
};

// Fails the test if the switches differ. fewest: frames that must have left for the comparison to
// mean something.
void expect_same(const std::shared_ptr<const Program>& program, const FormOfCode& one,
                 const FormOfCode& other, std::uint64_t fewest = 50);

}  // namespace tiercast::engine
