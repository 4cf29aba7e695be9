#include "dataplane/native/builder.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <system_error>
#include <thread>
#include <utility>

#include "base/privileges.h"

extern char** environ;

namespace tiercast::native {
namespace {

constexpr int kLookMs = 50;                       // between looks at a stop
constexpr std::uint64_t kMostBytes = 1ull << 30;  // of a text

std::pair<UniqueFd, UniqueFd> socket_pair(int type) {
  std::array<int, 2> both{};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, both.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  return {UniqueFd(both[0]), UniqueFd(both[1])};
}

// Both throw std::system_error if the other end has gone.
void write_all(int fd, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t written = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw std::system_error(errno, std::generic_category(), "the builder");
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void read_all(int fd, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(fd, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::system_error(ECONNRESET, std::generic_category(), "the builder");
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void write_text(int fd, const std::string& text) {
  const std::uint64_t bytes = text.size();
  write_all(fd, &bytes, sizeof bytes);
  write_all(fd, text.data(), text.size());
}

std::string read_text(int fd) {
  std::uint64_t bytes = 0;
  read_all(fd, &bytes, sizeof bytes);
  if (bytes > kMostBytes) throw std::system_error(EMSGSIZE, std::generic_category(), "the builder");
  std::string text(bytes, '\0');
  read_all(fd, text.data(), bytes);
  return text;
}

// Space for one descriptor beside a message of one byte.
struct PassedFd {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  PassedFd() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
};

void pass(int connection, int fd) {
  PassedFd passed;
  cmsghdr* const header = CMSG_FIRSTHDR(&passed.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (::sendmsg(connection, &passed.message, MSG_NOSIGNAL) < 0)
    throw std::system_error(errno, std::generic_category(), "the builder");
}

// None: the other end has gone.
UniqueFd take(int connection) {
  PassedFd passed;
  ssize_t got = 0;
  while ((got = ::recvmsg(connection, &passed.message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  const cmsghdr* const header = got > 0 ? CMSG_FIRSTHDR(&passed.message) : nullptr;
  if (header == nullptr) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return UniqueFd(fd);
}

void serve(const UniqueFd& request) {
  try {
    const std::string again = read_text(request.get());
    const std::string key = read_text(request.get());
    const Source source{read_text(request.get()), key};
    std::stop_source stop;
    const std::jthread watch([&](const std::stop_token& over) {
      pollfd asker{request.get(), POLLRDHUP, 0};
      while (!over.stop_requested())
        if (::poll(&asker, 1, kLookMs) > 0) return static_cast<void>(stop.request_stop());
    });
    const Object made = make_object(source, !again.empty(), stop.get_token());
    write_text(request.get(), made.path.string());
    write_text(request.get(), made.how);
  } catch (const std::system_error&) {
    // who asked has gone
  }
}

}  // namespace

Builder::Builder() {
  auto [mine, its] = socket_pair(SOCK_SEQPACKET);
  std::string name = "/proc/self/exe", option = kBuilderOption;
  char* const arguments[] = {name.data(), option.data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, its.get(), STDIN_FILENO);
  const int error = ::posix_spawn(&id_, name.c_str(), &files, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw std::system_error(error, std::generic_category(), name);
  connection_ = std::move(mine);
}

Builder::~Builder() {
  connection_ = UniqueFd();
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Object Builder::make_object(const Source& source, bool again, const std::stop_token& stop) const {
  try {
    auto [mine, its] = socket_pair(SOCK_STREAM);
    pass(connection_.get(), its.get());
    its = UniqueFd();  // so that its end is seen
    write_text(mine.get(), again ? "again" : "");
    write_text(mine.get(), source.key);
    write_text(mine.get(), source.text);
    pollfd answer{mine.get(), POLLIN, 0};
    while (::poll(&answer, 1, kLookMs) == 0)
      if (stop.stop_requested()) return {{}, "stopped"};
    const std::string path = read_text(mine.get());
    return {path, read_text(mine.get())};
  } catch (const std::system_error& error) {
    return {{}, error.what()};
  }
}

int builder_main() {
  // Its end is that of the connection, so that it can end its compilers first.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
  // The lab gives a switch real-time priority, which a compiler must not have.
  const sched_param ordinary{};
  ::sched_setscheduler(0, SCHED_OTHER, &ordinary);
  drop_capabilities({});
  struct Request {
    std::atomic<bool> done = false;
    std::jthread thread;
  };
  std::list<Request> requests;
  while (true) {
    UniqueFd taken = take(STDIN_FILENO);
    if (taken.get() < 0) return 0;
    requests.remove_if([](const Request& request) { return request.done.load(); });
    Request& request = requests.emplace_back();
    request.thread = std::jthread([&request, taken = std::move(taken)] {
      serve(taken);
      request.done = true;
    });
  }
}

}  // namespace tiercast::native
