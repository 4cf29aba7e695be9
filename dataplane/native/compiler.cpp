#include "dataplane/native/compiler.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <thread>

extern char** environ;

namespace tiercast::native {

namespace fs = std::filesystem;

namespace {

constexpr auto kPause = std::chrono::milliseconds(20);
constexpr auto kMostForVersion = std::chrono::seconds(10);
constexpr std::size_t kMostShown = 300;  // characters of a compiler's message

// A process in a group of its own, with its output in a file.
class Process {
 public:
  // Throws std::system_error.
  Process(std::vector<std::string> words, const fs::path& output) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    // A switch blocks and ignores signals that must end a compiler.
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error = ::posix_spawn(&id_, argv[0], &files, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) throw std::system_error(error, std::generic_category(), words[0]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (ended_) return;
    ::kill(-id_, SIGKILL);
    while (::waitpid(id_, &status_, 0) < 0 && errno == EINTR) {
    }
  }
  // Whether it ended by itself; otherwise it took too long, or `stop` was requested.
  bool wait(std::chrono::seconds most, const std::stop_token& stop) {
    const auto last = std::chrono::steady_clock::now() + most;
    while (!ended_ && !stop.stop_requested() && std::chrono::steady_clock::now() < last) {
      const pid_t done = ::waitpid(id_, &status_, WNOHANG);
      ended_ = done == id_ || (done < 0 && errno != EINTR);
      if (!ended_) std::this_thread::sleep_for(kPause);
    }
    return ended_;
  }
  bool succeeded() const { return ended_ && WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }

 private:
  pid_t id_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

// A new folder for this user alone, which is removed with all that is in it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& parent) {
    std::string name = (parent / ".compile-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), name);
    }
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// Empty if there is none.
std::string in_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty() || folder[0] != '/') continue;  // not from the working directory
    const fs::path candidate = fs::path(folder) / name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return {};
}

}  // namespace

Compiler find_compiler(const std::stop_token& stop) {
  std::vector<std::string> names = {"c++", "g++", "clang++"};
  if (const char* const given = std::getenv("CXX"); given != nullptr && *given != '\0') {
    names = {given};
  }
  for (const std::string& name : names) {
    std::vector<std::string> words = split(name);
    if (words.empty() || (words[0] = in_path(words[0])).empty()) continue;
    try {
      const TemporaryFolder folder(fs::temp_directory_path());
      const fs::path output = folder.path() / "version";
      std::vector<std::string> asked = words;
      asked.emplace_back("--version");
      Process process(asked, output);
      if (!process.wait(kMostForVersion, stop) || !process.succeeded()) continue;
      const std::string text = content(output);
      return {words, text.substr(0, text.find('\n'))};
    } catch (const std::exception&) {
      continue;  // perhaps another one works
    }
  }
  std::string tried;
  for (const std::string& name : names) tried += (tried.empty() ? "" : ", ") + name;
  return {{}, "no C++ compiler works; tried " + tried};
}

std::vector<std::string> compiler_flags() {
  return {"-std=c++20", "-O2", "-fPIC", "-shared", "-w", "-fno-exceptions", "-fno-rtti"};
}

std::string compile(const Compiler& compiler, const std::string& text, const fs::path& folder,
                    const fs::path& object, std::chrono::seconds most,
                    const std::stop_token& stop) {
  try {
    const TemporaryFolder temporary(folder);
    const fs::path source = temporary.path() / "program.cpp",
                   made = temporary.path() / "program.so", output = temporary.path() / "output";
    std::ofstream file(source, std::ios::binary);
    file << text;
    file.close();
    if (!file) return source.string() + ": cannot be written";
    std::vector<std::string> words = compiler.words;
    for (const std::string& flag : compiler_flags()) words.push_back(flag);
    words.insert(words.end(), {"-o", made.string(), source.string()});
    Process process(words, output);
    if (!process.wait(most, stop)) {
      return stop.stop_requested()
                 ? "stopped"
                 : compiler.words[0] + " took longer than " + std::to_string(most.count()) + " s";
    }
    if (!process.succeeded()) {
      return compiler.words[0] + " failed: " + content(output).substr(0, kMostShown);
    }
    fs::permissions(made, fs::perms::owner_all);
    fs::rename(made, object);  // at once, whoever else looks for it
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace tiercast::native
