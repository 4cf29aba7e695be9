// Native code for a program: prebuilt, from the cache, or compiled now.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "dataplane/engine/api/program.h"
#include "dataplane/engine/image/native_abi.h"

namespace tiercast::native {

class Builder;

struct Code {
  std::shared_ptr<const engine::NativeProgram> program;  // null: the interpreter stays
  std::string how;  // for a log: where it comes from, or why there is none
};

// The code that came with the build. Reads no file and starts no process.
Code find_prebuilt(const engine::Program& program);

// The same; otherwise from the cache; otherwise compiles it, which takes a second or more, in the
// process of `builder` if there is one. `stop` ends that early. Throws nothing.
Code obtain(const engine::Program& program, const std::stop_token& stop = {},
            const Builder* builder = nullptr);

// obtain() in a thread of its own. The destructor ends the compiler and waits for the thread.
class BackgroundBuild {
 public:
  // Calls `ready`, in that thread, when take() has something. `builder` must outlive the object.
  BackgroundBuild(std::shared_ptr<const engine::Program> program, std::function<void()> ready,
                  const Builder* builder = nullptr);
  // Once: the code, or why there is none. Nothing while it is being made, and afterwards.
  std::optional<Code> take();

 private:
  std::mutex mutex_;  // guards code_
  std::optional<Code> code_;
  std::jthread thread_;
};

}  // namespace tiercast::native
