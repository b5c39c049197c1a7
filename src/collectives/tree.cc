#include <algorithm>
#include <cstring>

#include "collectives/algorithms.h"

// A binomial tree: counted from the root, the parent of member m is m with its lowest bit cleared.

namespace cohort::internal {
namespace {

constexpr size_t kTreeSegment = size_t{1} << 20;

class Tree {
 public:
  Tree(const Exchange& exchange, int root) : size_(exchange.size()), root_(root) {
    const int own = (exchange.rank() - root + size_) % size_;
    int distance = 1;
    for (; distance < size_ && (own & distance) == 0; distance *= 2) {
      if (own + distance < size_) children_.push_back(rank_of(own + distance));
    }
    if (own != 0) parent_ = rank_of(own & (own - 1));
  }

  bool is_root() const { return parent_ < 0; }
  int parent() const { return parent_; }
  // Near members first: they have the fewest members below them.
  const std::vector<int>& children() const { return children_; }

 private:
  int rank_of(int number) const { return (number + root_) % size_; }

  const int size_;
  const int root_;
  int parent_ = -1;
  std::vector<int> children_;
};

// At least one segment, which may be empty.
template <typename Body>
void for_each_segment(size_t bytes, size_t element, const Body& body) {
  const size_t length = kTreeSegment / element * element;
  uint64_t step = 0;
  size_t at = 0;
  do {
    const size_t end = std::min(bytes, at + length);
    body(step++, at, end);
    at = end;
  } while (at < bytes);
}

}  // namespace

void tree_broadcast(Exchange& exchange, int root, const Buffer& values, std::byte* out,
                    size_t bytes) {
  const Tree tree(exchange, root);
  for_each_segment(bytes, 1, [&](uint64_t step, size_t begin, size_t end) {
    const Buffer segment = tree.is_root() ? part_of(values, begin, end)
                                          : exchange.receive(tree.parent(), step, end - begin);
    // Far members first: they have to pass on most.
    for (auto child = tree.children().rbegin(); child != tree.children().rend(); ++child) {
      exchange.send(*child, step, segment);
    }
    if (end > begin) std::memcpy(out + begin, segment.bytes.data(), end - begin);
  });
}

void tree_reduce(Exchange& exchange, int root, const Numbers& operand, std::byte* out) {
  const Tree tree(exchange, root);
  for_each_segment(operand.values.bytes.size(), operand.element(),
                   [&](uint64_t step, size_t begin, size_t end) {
                     Buffer sum = part_of(operand.values, begin, end);
                     for (const int child : tree.children()) {
                       sum = combine(operand, sum, exchange.receive(child, step, end - begin));
                     }
                     if (!tree.is_root()) return exchange.send(tree.parent(), step, sum);
                     if (end > begin) std::memcpy(out + begin, sum.bytes.data(), end - begin);
                   });
}

}  // namespace cohort::internal
