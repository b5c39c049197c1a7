#include "rpc/grpc_settings.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <mutex>

#include "base/log.h"
#include "rpc/chunks.h"
#include "rpc/unfinished_channels.h"

namespace cohort::internal {
namespace {

namespace tls = grpc::experimental;

constexpr int kKeepAliveMs = 10'000;         // between questions whether the other side is there
constexpr int kKeepAliveAnswerMs = 20'000;   // for its answer
constexpr int kHandshakeMs = 10'000;         // from connecting to the first HTTP/2 frame
constexpr int kIdleMs = 60'000;              // of a connection without calls
constexpr int kMaxStreamsPerConnection = 8;  // one is used
constexpr int kMaxMetadataBytes = 16 << 10;
constexpr size_t kServerMemoryBytes = size_t{1} << 30;     // that gRPC may take for all peers
constexpr size_t kChannelMemoryBytes = size_t{256} << 20;  // for one

std::shared_ptr<tls::CertificateProviderInterface> provider(const Credentials& credentials) {
  return std::make_shared<tls::StaticDataCertificateProvider>(
      credentials.authority,
      std::vector<tls::IdentityKeyCertPair>{
          {.private_key = credentials.private_key, .certificate_chain = credentials.certificate}});
}

template <typename Options>
void configure_tls(Options& options) {
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  // Certificates belong to tasks, not to hosts: the greeting compares names.
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Credentials& credentials) {
  if (!credentials.has_certificates()) return grpc::InsecureChannelCredentials();
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider(credentials));
  options.set_verify_server_certs(true);
  configure_tls(options);
  return tls::TlsCredentials(options);
}

void log_as_information(gpr_log_func_args* args) { log_info("[gRPC] {}", args->message); }

}  // namespace

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Credentials& credentials) {
  if (!credentials.has_certificates()) return grpc::InsecureServerCredentials();
  tls::TlsServerCredentialsOptions options(provider(credentials));
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  configure_tls(options);
  return tls::TlsServerCredentials(options);
}

std::shared_ptr<grpc::Channel> make_channel(const std::string& address,
                                            const Credentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveAnswerMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  arguments.SetMaxReceiveMessageSize(kMaxChunkBytes);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetResourceQuota(grpc::ResourceQuota("cohort channel").Resize(kChannelMemoryBytes));
  return UnfinishedChannels::guard(
      grpc::CreateCustomChannel("dns:///" + address, channel_credentials(credentials), arguments));
}

void configure(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveAnswerMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepAliveMs / 2);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.SetMaxReceiveMessageSize(kMaxChunkBytes);
  builder.SetMaxSendMessageSize(-1);
  builder.SetResourceQuota(grpc::ResourceQuota("cohort server").Resize(kServerMemoryBytes));
}

std::vector<std::string> peer_certificate_names(const grpc::AuthContext& context) {
  std::vector<std::string> names;
  for (const grpc::string_ref& name : context.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    names.emplace_back(name.data(), name.size());
  }
  return names;
}

void quiet_grpc() {
  static std::once_flag once;
  std::call_once(once, [] { gpr_set_log_function(&log_as_information); });
}

}  // namespace cohort::internal
