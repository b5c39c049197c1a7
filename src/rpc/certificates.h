#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cohort/credentials.h"

namespace cohort::internal {

// Whether a name is a task's, and not a client's.
bool is_task_name(std::string_view name);
// The alternative name, of kind URI, by which a certificate belongs to a task.
std::string certificate_name(std::string_view task);
// Whether the holder of a certificate with these names may call itself `name`: a task needs its own
// certificate, a client any.
bool may_be_called(std::string_view name, std::span<const std::string> certificate_names);

// Throws what is wrong with the credentials of the party `name`, before anybody else finds out:
// InvalidArgument (parts missing, not PEM, key of another certificate, token too short),
// FailedPrecondition (expired, not yet valid), PermissionDenied (made for another task).
void check_credentials(const Credentials& credentials, std::string_view name);

// Compares without telling by the time it takes how much was right.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace cohort::internal
