#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

// The hosts of Slurm's compact form, in order: a[3-5],b7,c[1,4-5] -> a3 a4 a5 b7 c1 c4 c5. Leading
// zeros are kept (n[08-10] -> n08 n09 n10); several brackets in one name give every combination.
// Throws InvalidArgument if the text cannot be read or means more than 100,000 hosts.
std::vector<std::string> parse_node_list(std::string_view text);

// 2(x3),1 -> 2 2 2 1. Throws InvalidArgument if the text cannot be read or has more than 100,000
// entries.
std::vector<int> parse_task_counts(std::string_view text);

}  // namespace cohort::internal
