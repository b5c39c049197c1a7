#pragma once

#include <string>

namespace cohort::internal {

// Why no process can listen there: "port 2222 is in use by process 4711 (trainer)", or what the
// system says. For the text of an error.
std::string why_not_listening(const std::string& host, int port);

}  // namespace cohort::internal
