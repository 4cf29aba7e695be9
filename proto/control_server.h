// A gRPC server at one address, for the programs that are controlled over gRPC.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "proto/access.h"

namespace tiercast::control {

class ControlServer {
 public:
  // `option`: the command-line option that gave the address, for error texts. `address`:
  // "unix:/path" or "host:port". A socket file that nobody serves any longer is replaced. Throws
  // AddressError. The services must outlive this object.
  ControlServer(const std::string& option, const std::string& address, const Access& access,
                const std::vector<grpc::Service*>& services);
  // Ends all calls at once, and removes the socket file.
  ~ControlServer();

 private:
  void accept_all(const std::stop_token& stop);  // a thread of its own

  std::string socket_path_;  // empty if it is not a Unix socket
  UniqueFd wakeup_;
  std::vector<UniqueFd> listening_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::jthread accepting_;
};

}  // namespace tiercast::control
