#include "cohort/server.h"

#include "cluster/task_server.h"

namespace cohort {

Server::Server(const ClusterSpec& cluster, const ServerTask& task, const ServerOptions& options)
    : impl_(std::make_unique<internal::TaskServer>(make_server_def(cluster, task), options)) {}

Server::Server(const ServerDef& def, const ServerTask& task, const ServerOptions& options)
    : impl_(std::make_unique<internal::TaskServer>(make_server_def(def, task), options)) {}

Server::~Server() = default;

Server Server::create_local_server(const ServerOptions& options) {
  return Server(ClusterSpec{{"localhost", {"localhost:0"}}}, {}, options);
}

void Server::start() { impl_->start(); }
void Server::join() { impl_->join(); }
void Server::stop() { impl_->stop(); }
std::string Server::target() const { return impl_->target(); }
ServerDef Server::server_def() const { return impl_->server_def(); }
ServerStatus Server::status() const { return impl_->status(); }

}  // namespace cohort
