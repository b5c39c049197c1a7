#include <algorithm>
#include <cstring>

#include "collectives/algorithms.h"

// Members form a ring; each receives from the one before it and sends to the one after it. The
// data is cut into one chunk for each member, a chunk into segments, each of which is a message. In
// the first half of the steps a chunk goes once around and grows by each member's part; in the
// second half the finished chunks go around.
//
// Chunk c begins at rank c + 1 and is complete at rank c, so it is added up in the order c + 1,
// c + 2, ..., c.

namespace cohort::internal {
namespace {

constexpr size_t kRingSegment = size_t{1} << 20;
// A chunk has fewer segments, so that the keys of two steps differ.
constexpr uint64_t kSegmentsPerStep = uint64_t{1} << 32;

class Ring {
 public:
  Ring(Exchange& exchange, const Numbers& operand)
      : exchange_(exchange),
        operand_(operand),
        segment_(kRingSegment / operand.element() * operand.element()),
        next_((exchange.rank() + 1) % exchange.size()),
        before_((exchange.rank() + exchange.size() - 1) % exchange.size()) {}

  // The segments of this rank's chunk. Each is sent on before the next one has come: that is what
  // keeps all members busy.
  std::vector<Buffer> reduce_scatter() {
    std::vector<Buffer> segments = own_segments(chunk(1));
    for (size_t i = 0; i < segments.size(); ++i) send(0, i, segments[i]);
    const int last = exchange_.size() - 2;
    for (int step = 0; step <= last; ++step) {
      segments = own_segments(chunk(step + 2));
      for (size_t i = 0; i < segments.size(); ++i) {
        const Buffer partial = receive(step, i, segments[i].bytes.size());
        segments[i] = combine(operand_, partial, segments[i]);
        if (step < last) send(step + 1, i, segments[i]);
      }
    }
    return segments;
  }

  // The chunks of all members, from the finished segments of this member's chunk.
  void all_gather(const std::vector<Buffer>& own, std::byte* out) {
    const int first = exchange_.size() - 1;  // steps of the first half
    for (size_t i = 0; i < own.size(); ++i) send(first, i, own[i]);
    write(chunk(0), own, out);
    for (int step = first; step < 2 * first; ++step) {
      const int coming = chunk(step - first + 1);
      std::vector<Buffer> segments = own_segments(coming);  // as long as the segments that come
      for (size_t i = 0; i < segments.size(); ++i) {
        segments[i] = receive(step, i, segments[i].bytes.size());
        if (step + 1 < 2 * first) send(step + 1, i, segments[i]);
      }
      write(coming, segments, out);
    }
  }

 private:
  // The chunk that is `steps` before this rank's own.
  int chunk(int steps) const {
    const int size = exchange_.size();
    return ((exchange_.rank() - steps) % size + size) % size;
  }

  // At least one, which may be empty.
  std::vector<Buffer> own_segments(int chunk) const {
    const ByteRange range = part_bytes(operand_, chunk, exchange_.size());
    std::vector<Buffer> segments;
    for (size_t at = range.begin; at < range.end; at += segment_) {
      segments.push_back(part_of(operand_.values, at, std::min(range.end, at + segment_)));
    }
    if (segments.empty()) segments.push_back(part_of(operand_.values, range.begin, range.begin));
    return segments;
  }

  static uint64_t key(int step, size_t segment) {
    return static_cast<uint64_t>(step) * kSegmentsPerStep + segment;
  }
  void send(int step, size_t segment, const Buffer& payload) {
    exchange_.send(next_, key(step, segment), payload);
  }
  Buffer receive(int step, size_t segment, size_t bytes) {
    return exchange_.receive(before_, key(step, segment), bytes);
  }
  void write(int chunk, const std::vector<Buffer>& segments, std::byte* out) const {
    size_t at = part_bytes(operand_, chunk, exchange_.size()).begin;
    for (const Buffer& segment : segments) {
      if (!segment.bytes.empty()) std::memcpy(out + at, segment.bytes.data(), segment.bytes.size());
      at += segment.bytes.size();
    }
  }

  Exchange& exchange_;
  const Numbers& operand_;
  const size_t segment_;
  const int next_;
  const int before_;
};

}  // namespace

void ring_all_reduce(Exchange& exchange, const Numbers& operand, std::byte* out) {
  Ring ring(exchange, operand);
  ring.all_gather(ring.reduce_scatter(), out);
}

Buffer ring_reduce_scatter(Exchange& exchange, const Numbers& operand) {
  std::vector<Buffer> segments = Ring(exchange, operand).reduce_scatter();
  if (segments.size() == 1) return segments[0];
  size_t bytes = 0;
  for (const Buffer& segment : segments) bytes += segment.bytes.size();
  const FreshBuffer whole(bytes);
  std::byte* at = whole.data;
  for (const Buffer& segment : segments) {
    at = std::copy(segment.bytes.begin(), segment.bytes.end(), at);
  }
  return whole.buffer;
}

std::vector<Buffer> ring_all_gather(Exchange& exchange, const Buffer& own) {
  const int size = exchange.size();
  const int rank = exchange.rank();
  std::vector<Buffer> all(static_cast<size_t>(size));
  all[static_cast<size_t>(rank)] = own;
  for (int step = 0; step < size - 1; ++step) {
    const auto source = [&](int steps) {
      return static_cast<size_t>(((rank - steps) % size + size) % size);
    };
    exchange.send((rank + 1) % size, static_cast<uint64_t>(step), all[source(step)]);
    all[source(step + 1)] =
        exchange.receive_any((rank + size - 1) % size, static_cast<uint64_t>(step));
  }
  return all;
}

}  // namespace cohort::internal
