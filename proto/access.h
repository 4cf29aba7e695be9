// Who may use a gRPC server on TCP, and how a client shows who it is: mutual TLS with certificates
// that `tiercast keys` makes (docs/security.md). Unix sockets have their files' permissions
// instead.
//
// Whoever connects shows a certificate of the lab's own authority, which names its role. A
// controller may make every call, an observer those that read and change nothing for others.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

namespace grpc {
class ChannelArguments;
class ChannelCredentials;
class ServerContextBase;
class ServerCredentials;
}  // namespace grpc

namespace tiercast::control {

// The options --tls and --insecure of a program.
struct Access {
  std::string tls;        // folder with ca.pem, agent.pem and agent.key; "": none
  bool insecure = false;  // TCP without TLS: whoever reaches the address may make every call
};

inline constexpr const char* kTlsHelp =
    "folder with ca.pem, agent.pem and agent.key (`tiercast keys`): TLS at addresses on TCP, where "
    "both sides show a certificate";
inline constexpr const char* kInsecureHelp =
    "neither authentication nor encryption at addresses on TCP";

// An address cannot be served or connected to: it is not free, it needs --tls or --insecure, or a
// file of --tls cannot be used. The text names it and says why.
class AddressError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What to serve `address` ("unix:/path" or "host:port") with; `option` gave the address. With TLS
// every call is checked against the role of who makes it, and refused with PERMISSION_DENIED.
// Throws AddressError.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const std::string& option,
                                                            const std::string& address,
                                                            const Access& access);

// What an agent connects to the lab at `address` with: a server with another role than controller
// is not accepted. Adds to `arguments` what belongs to it. Throws AddressError.
std::shared_ptr<grpc::ChannelCredentials> lab_credentials(const std::string& option,
                                                          const std::string& address,
                                                          const Access& access,
                                                          grpc::ChannelArguments& arguments);

// Whether the caller has shown a certificate that lets it read alone.
bool may_only_read(const grpc::ServerContextBase& context);

}  // namespace tiercast::control
