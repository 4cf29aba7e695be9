// A P4 program, compiled from bmv2 JSON (as p4c-bm2-ss emits it for v1model) into flat operations
// on a fixed packet vector. A Program does not change, so any number of Switches may share one.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/engine/control/control.h"

namespace tiercast::engine {

struct Image;  // the compiled form: dataplane/engine/image/image.h

// The JSON is damaged, is not bmv2's, or uses a construct that the engine does not execute.
class LoadError : public std::runtime_error {
 public:
  LoadError(const std::string& program, const std::string& construct, const std::string& source);
  // What is wrong or unsupported, with its place in the JSON.
  const std::string& construct() const { return construct_; }
  // "router.p4:42", or empty where the JSON names no source line.
  const std::string& source() const { return source_; }

 private:
  std::string construct_;
  std::string source_;
};

class Program {
 public:
  // json: the whole text. name: used in messages only, usually a file name. Throws LoadError and
  // nothing else.
  static std::shared_ptr<const Program> load(std::string_view json, std::string_view name);
  ~Program();

  const std::string& name() const;
  const std::vector<TableInfo>& tables() const;
  const std::vector<ActionInfo>& actions() const;
  const std::vector<CounterInfo>& counters() const;
  const std::vector<RegisterInfo>& registers() const;
  const std::vector<MeterInfo>& meters() const;
  const std::vector<ActionProfileInfo>& action_profiles() const;
  const std::vector<DigestInfo>& digests() const;
  const std::vector<ValueSetInfo>& value_sets() const;
  const Image& image() const { return *image_; }

 private:
  explicit Program(std::unique_ptr<const Image> image);
  std::unique_ptr<const Image> image_;
};

}  // namespace tiercast::engine
