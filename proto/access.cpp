#include "proto/access.h"

#include <fmt/format.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text_file.h"

namespace tiercast::control {
namespace {

// A role is a DNS name in the certificate, so that gRPC itself checks that of a server
// (controller/tiercast_controller/base/tls.py writes and reads the same).
constexpr const char* kController = "controller.tiercast.internal";
constexpr const char* kObserver = "observer.tiercast.internal";

// What an observer may call. Not GetPorts and TakeTrace, since what they return is gone for the
// controller: the highest values since the last call, and the sampled packets.
constexpr std::array<std::string_view, 5> kReadOnly = {
    "/p4.v1.P4Runtime/Read",
    "/p4.v1.P4Runtime/GetForwardingPipelineConfig",
    "/p4.v1.P4Runtime/Capabilities",
    "/p4.v1.P4Runtime/StreamChannel",
    "/tiercast.v1.Sender/ListSessions",
};

// Whether an address is to have TLS. Throws AddressError.
bool wants_tls(const std::string& option, const std::string& address, const Access& access) {
  if (address.starts_with("unix:")) return false;
  if (!access.tls.empty()) return true;
  if (access.insecure) return false;
  throw AddressError(
      fmt::format("{} {}: TCP without TLS; valid: --tls FOLDER (`tiercast keys FOLDER` makes one), "
                  "--insecure where nobody else reaches the address, or unix:/path",
                  option, address));
}

std::string read_pem(const std::string& folder, const char* name, bool is_secret = false) {
  try {
    TextFile file = read_text_file(folder + "/" + name);
    if (is_secret) file.require_private();
    if (file.text.find("-----BEGIN ") == std::string::npos)
      throw ConfigError(file.path + ": not a PEM file");
    return std::move(file.text);
  } catch (const ConfigError& error) {
    throw AddressError(fmt::format("--tls {}", error.what()));
  }
}

struct Pems {
  std::string ca, certificate, key;
  explicit Pems(const std::string& folder)
      : ca(read_pem(folder, "ca.pem")),
        certificate(read_pem(folder, "agent.pem")),
        key(read_pem(folder, "agent.key", true)) {}
};

bool has_role(const grpc::AuthContext& peer, const char* role) {
  const auto names = peer.FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME);
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return name == role; });
}

// Compares each call with the role of who makes it, before the service hears of the call.
class RoleCheck final : public grpc::AuthMetadataProcessor {
 public:
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* peer, OutputMetadata*,
                       OutputMetadata*) override {
    if (has_role(*peer, kController)) return grpc::Status::OK;
    const auto found = metadata.find(":path");
    const std::string_view method =
        found == metadata.end() ? std::string_view()
                                : std::string_view(found->second.data(), found->second.size());
    const bool is_read_only =
        std::find(kReadOnly.begin(), kReadOnly.end(), method) != kReadOnly.end();
    if (is_read_only && has_role(*peer, kObserver)) return grpc::Status::OK;
    return {grpc::PERMISSION_DENIED,
            fmt::format("{}: a certificate of role {} is needed", method,
                        is_read_only ? "controller or observer" : "controller")};
  }
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> server_credentials(const std::string& option,
                                                            const std::string& address,
                                                            const Access& access) {
  if (!wants_tls(option, address, access)) return grpc::InsecureServerCredentials();
  const Pems pems(access.tls);
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = pems.ca;
  options.pem_key_cert_pairs.push_back({pems.key, pems.certificate});
  auto credentials = grpc::SslServerCredentials(options);
  credentials->SetAuthMetadataProcessor(std::make_shared<RoleCheck>());
  return credentials;
}

std::shared_ptr<grpc::ChannelCredentials> lab_credentials(const std::string& option,
                                                          const std::string& address,
                                                          const Access& access,
                                                          grpc::ChannelArguments& arguments) {
  if (!wants_tls(option, address, access)) return grpc::InsecureChannelCredentials();
  const Pems pems(access.tls);
  arguments.SetSslTargetNameOverride(kController);
  return grpc::SslCredentials({pems.ca, pems.key, pems.certificate});
}

bool may_only_read(const grpc::ServerContextBase& context) {
  return has_role(*context.auth_context(), kObserver);
}

}  // namespace tiercast::control
