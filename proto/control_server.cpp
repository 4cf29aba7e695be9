#include "proto/control_server.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

namespace tiercast::control {
namespace {

constexpr int kMaxMessage = 64 << 20;  // bytes; a pipeline config may have some megabytes
constexpr rlim_t kReserved = 64;       // descriptors that connections leave to the program
constexpr int kPauseMs = 100;          // after an error, such as no descriptor even for that

bool somebody_serves(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

// Without this check, gRPC would take the socket file away from a running server.
void check_socket_path(const std::string& option, const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno != ENOENT)
      throw AddressError(fmt::format("{} unix:{}: {}", option, path, strerror(errno)));
    return;
  }
  if (!S_ISSOCK(status.st_mode))
    throw AddressError(
        fmt::format("{} unix:{}: the file exists and is not a socket", option, path));
  if (somebody_serves(path))
    throw AddressError(fmt::format("{} unix:{}: address in use by another process", option, path));
  ::unlink(path.c_str());
}

// What listening takes, or why it cannot be.
struct Listening {
  UniqueFd fd;
  std::string error;
};

Listening listen_at(int family, const sockaddr* where, socklen_t bytes) {
  Listening at{UniqueFd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), ""};
  const int fd = at.fd.get();
  if (fd < 0) return {UniqueFd(), strerror(errno)};
  const int on = 1, off = 0;
  if (family != AF_UNIX) {
    // A connection that has just ended is in nobody's way.
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // inherited by connections
  }
  if (family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd, where, bytes) != 0 || ::listen(fd, SOMAXCONN) != 0)
    at = {UniqueFd(), strerror(errno)};
  return at;
}

Listening listen_at(const std::string& path) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof where.sun_path) return {UniqueFd(), strerror(ENAMETOOLONG)};
  path.copy(where.sun_path, sizeof where.sun_path - 1);
  return listen_at(AF_UNIX, reinterpret_cast<const sockaddr*>(&where), sizeof where);
}

// At every address of the host; `error`: why at none.
std::vector<UniqueFd> listen_at(std::string host, const std::string& port, std::string& error) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code =
          ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found)) {
    error = gai_strerror(code);
    return {};
  }
  std::vector<UniqueFd> all;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Listening at = listen_at(one->ai_family, one->ai_addr, one->ai_addrlen);
    if (at.fd.get() >= 0) {
      all.push_back(std::move(at.fd));
    } else if (error.empty()) {
      error = at.error;
    }
  }
  ::freeaddrinfo(found);
  return all;
}

// gRPC writes lengthy lines when it cannot listen. They are suppressed, because we report the error
// ourselves.
void say_nothing(gpr_log_func_args*) {}

// gRPC finds out only where it is to listen itself.
bool can_serve(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(fmt::format("unix-abstract:tiercast-{}", std::random_device()()),
                           credentials);
  const auto queue = builder.AddCompletionQueue();  // gRPC starts nothing that has no calls
  const auto server = builder.BuildAndStart();
  if (server) server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue->Next(&tag, &ok);) {
  }
  return server != nullptr;
}

}  // namespace

ControlServer::ControlServer(const std::string& option, const std::string& address,
                             const Access& access, const std::vector<grpc::Service*>& services)
    : wakeup_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wakeup_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  // Never released, because shutting the library down may wait 10 s for its own poller (gRPC 1.51),
  // and the process ends with the server anyway.
  static const bool initialised = (grpc_init(), true);
  (void)initialised;
  gpr_set_log_function(say_nothing);
  const auto credentials = server_credentials(option, address, access);
  if (!access.tls.empty() && !can_serve(credentials))
    throw AddressError(fmt::format(
        "--tls {}: agent.pem is not the certificate of agent.key, or one of the files is damaged",
        access.tls));
  if (address.starts_with("unix:")) {
    const std::string path = address.substr(5);
    check_socket_path(option, path);
    socket_path_ = path;
  }
  std::string why;
  if (!socket_path_.empty()) {
    Listening at = listen_at(socket_path_);
    why = at.error;
    if (why.empty()) listening_.push_back(std::move(at.fd));
  } else {
    const std::size_t colon = address.rfind(':');
    const std::string port = address.substr(colon + 1);
    const std::string host = address.substr(0, colon);
    if (host == "0.0.0.0") {  // of both families, where there is IPv6
      listening_ = listen_at("::", port, why);
      why.clear();
    }
    if (listening_.empty()) listening_ = listen_at(host, port, why);
  }
  if (listening_.empty())
    throw AddressError(fmt::format("{} {}: cannot listen: {}", option, address, why));
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  using FromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(FromFd::FROM_FD, credentials);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  if (!server_) throw AddressError(fmt::format("{} {}: gRPC serves nobody there", option, address));
  accepting_ = std::jthread([this](const std::stop_token& stop) { accept_all(stop); });
}

ControlServer::~ControlServer() {
  if (accepting_.joinable()) {
    accepting_.request_stop();
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wakeup_.get(), &one, sizeof one);
    accepting_.join();
  }
  listening_.clear();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
}

// By gRPC itself (1.51), a server listens no more once its process had no descriptor for a
// connection, and whoever reaches the port, with a certificate or without, can bring that about.
void ControlServer::accept_all(const std::stop_token& stop) {
  std::vector<pollfd> waits{{wakeup_.get(), POLLIN, 0}};
  for (const UniqueFd& listener : listening_) waits.push_back({listener.get(), POLLIN, 0});
  while (!stop.stop_requested()) {
    if (::poll(waits.data(), waits.size(), -1) <= 0) continue;
    for (std::size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      const int fd = ::accept4(waits[i].fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        const bool is_gone = errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
        if (!is_gone) ::poll(waits.data(), 1, kPauseMs);
        continue;
      }
      // Numbers are given from the lowest free one on.
      rlimit most{};
      ::getrlimit(RLIMIT_NOFILE, &most);
      if (static_cast<rlim_t>(fd) + kReserved >= most.rlim_cur) {
        ::close(fd);
        continue;
      }
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.listener_fd = waits[i].fd;
      connection.fd = fd;
      acceptor_->HandleNewConnection(&connection);
    }
  }
}

}  // namespace tiercast::control
