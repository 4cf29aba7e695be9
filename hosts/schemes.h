// The registry of schemes as JSON, for programs that check names and ranges before they start a
// run.
#pragma once

#include <string>

namespace tiercast::hosts {

// [{"name","id","layered","aggregated","lies":{name:
// meaning},"parameters":[{"name","default","min",
// "max","unit","whole","used_by","purpose","source"}],"records"}]
std::string schemes_as_json();

}  // namespace tiercast::hosts
