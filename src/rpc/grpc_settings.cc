#include "rpc/grpc_settings.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <optional>

#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/thread.h"
#include "rpc/certificates.h"
#include "rpc/message_chunks.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

namespace tls = grpc::experimental;

constexpr int kKeepAliveMs = 10'000;        // between two questions whether the other side is alive
constexpr int kKeepAliveAnswerMs = 20'000;  // for the answer
constexpr int kHandshakeMs = 10'000;        // from connecting to the first HTTP/2 frame
constexpr int kIdleMs = 60'000;             // of a connection without calls
constexpr int kMaxStreamsPerConnection = 8;  // of which one is used
constexpr int kMaxMetadataBytes = 16 << 10;
constexpr size_t kServerMemoryBytes = size_t{1} << 30;     // that gRPC may take for all peers
constexpr size_t kChannelMemoryBytes = size_t{256} << 20;  // for one channel

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
  // Certificates belong to tasks, not to hosts: the handshake compares names.
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

using std::chrono::steady_clock;

// How often the end of the process is noticed while a channel is kept.
constexpr std::chrono::milliseconds kMoment{50};
// gRPC gives up a connection attempt after 20 s.
constexpr std::chrono::seconds kMaxKept{30};

bool is_connecting(grpc::Channel& channel) {
  return channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_CONNECTING;
}

// Channels that their users drop while they connect. gRPC 1.51 loses the connection of a channel
// that is destroyed in that state: the socket stays open until the server closes it. So a channel
// is kept until it has connected or failed. Thread-safe.
class UnfinishedChannels {
 public:
  ~UnfinishedChannels() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      queue_.Shutdown();
    }
    thread_.reset();
    run();  // a queue must be emptied before its end, also where no thread was started
  }

  // The same channel. When its last user has dropped it, it is destroyed as soon as that loses
  // nothing.
  static std::shared_ptr<grpc::Channel> guard(std::shared_ptr<grpc::Channel> channel) {
    // Each channel holds a reference, for channels that static destructors drop.
    static const auto all = std::make_shared<UnfinishedChannels>();
    grpc::Channel* const same = channel.get();
    return {same, [all = all, held = std::move(channel)](grpc::Channel*) mutable {
              if (is_connecting(*held)) all->keep(std::move(held));
            }};
  }

 private:
  struct Kept {
    std::shared_ptr<grpc::Channel> channel;
    Deadline until;
  };

  void keep(std::shared_ptr<grpc::Channel> channel) {
    const std::lock_guard lock(mutex_);
    if (!thread_) thread_.emplace("channels", [this](const std::stop_token&) { run(); });
    await_change(std::make_unique<Kept>(Kept{std::move(channel), steady_clock::now() + kMaxKept}));
  }

  // The queue delivers the channel when its state changes, or after a moment. The lock is held.
  void await_change(std::unique_ptr<Kept> kept) {
    grpc::Channel& channel = *kept->channel;
    channel.NotifyOnStateChange(GRPC_CHANNEL_CONNECTING,
                                to_grpc_time(steady_clock::now() + kMoment), &queue_,
                                kept.release());
  }

  void run() {
    void* tag = nullptr;
    bool changed = false;
    while (queue_.Next(&tag, &changed)) {
      std::unique_ptr<Kept> kept;  // destroyed after the lock
      const std::lock_guard lock(mutex_);
      kept.reset(static_cast<Kept*>(tag));
      const bool over = changed || steady_clock::now() >= kept->until;
      if (!over && !stopping_) await_change(std::move(kept));
    }
  }

  grpc::CompletionQueue queue_;
  Mutex mutex_;
  bool stopping_ = false;         // guarded by mutex_, as the next
  std::optional<Thread> thread_;  // started for the first channel
};

void log_as_information(gpr_log_func_args* args) { log_info("[gRPC] {}", args->message); }

}  // namespace

void check_target(const std::string& address, const Credentials& credentials) {
  const HostPort target = parse_address(address);
  const bool is_host = std::all_of(target.host.begin(), target.host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view(".-_:%").find(c) != std::string_view::npos;
  });
  if (!is_host || target.port == 0) {
    raise(Code::InvalidArgument, "[Connect] '{}' is not a host and port to connect to", address);
  }
  if (credentials.has_certificates() || credentials.token.empty() || credentials.insecure) return;
  if (!is_loopback(target.host)) {
    raise(Code::FailedPrecondition,
          "[Connect] without certificates the token would go to {} as plain text; give both "
          "sides certificates, or set Credentials::insecure",
          address);
  }
}

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

void check_peer_certificate(const grpc::AuthContext& context, const std::string& name,
                            std::string_view who) {
  const std::vector<std::string> names = peer_certificate_names(context);
  if (may_be_called(name, names)) return;
  raise(Code::PermissionDenied, "[Connect] {} says that it is {}, and its certificate is for [{}]",
        who, name, fmt::join(names, ", "));
}

void quiet_grpc() {
  static std::once_flag once;
  std::call_once(once, [] { gpr_set_log_function(&log_as_information); });
}

}  // namespace cohort::internal
