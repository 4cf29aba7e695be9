#include "proto/control_server.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace tiercast::control {
namespace {

constexpr int kMaxMessage = 64 << 20;  // bytes; a pipeline config may have some megabytes

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

// Why gRPC, which does not say it, could not listen at `host:port` or at a socket `path`: what the
// kernel says to the same; empty if the kernel has nothing against it.
std::string why_not(const std::string& address, const std::string& path) {
  const auto tried = [](int family, const sockaddr* where, socklen_t bytes) -> std::string {
    const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return strerror(errno);
    const int on = 1;  // as gRPC, for which a connection that has just ended is in nobody's way
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool listens = ::bind(fd, where, bytes) == 0 && ::listen(fd, 1) == 0;
    std::string said = listens ? "" : strerror(errno);
    ::close(fd);
    return said;
  };
  if (!path.empty()) {
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    if (path.size() >= sizeof where.sun_path) return strerror(ENAMETOOLONG);
    path.copy(where.sun_path, sizeof where.sun_path - 1);
    return tried(AF_UNIX, reinterpret_cast<const sockaddr*>(&where), sizeof where);
  }
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found))
    return gai_strerror(error);
  std::string said = tried(found->ai_family, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return said;
}

// gRPC writes lengthy lines when it cannot listen. They are suppressed, because we report the error
// ourselves.
void say_nothing(gpr_log_func_args*) {}

}  // namespace

ControlServer::ControlServer(const std::string& option, const std::string& address,
                             const Access& access, const std::vector<grpc::Service*>& services) {
  // Never released, because shutting the library down may wait 10 s for its own poller (gRPC 1.51),
  // and the process ends with the server anyway.
  static const bool initialised = (grpc_init(), true);
  (void)initialised;
  gpr_set_log_function(say_nothing);
  if (address.starts_with("unix:")) {
    const std::string path = address.substr(5);
    check_socket_path(option, path);
    socket_path_ = path;
  }
  grpc::ServerBuilder builder;
  // Without this, two servers could share a TCP port and each get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  int bound = 0;
  builder.AddListeningPort(address, server_credentials(option, address, access), &bound);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  if (!server_ || bound == 0) {
    const std::string why = why_not(address, socket_path_);
    if (why.empty() && !access.tls.empty())
      throw AddressError(fmt::format(
          "--tls {}: agent.pem is not the certificate of agent.key, or one of the files is damaged",
          access.tls));
    throw AddressError(fmt::format("{} {}: cannot listen: {}", option, address,
                                   why.empty() ? "gRPC says no reason" : why));
  }
}

ControlServer::~ControlServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
}

}  // namespace tiercast::control
