#include <cohort/cohort.h>

using namespace cohort;

void misuse(ReplicaContext& context) {
  context.merge_call([](Strategy&, const std::string& text) { return text.size(); }, 3);
}
