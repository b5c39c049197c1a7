#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "transport/connection.h"

namespace cohort::internal {

// Two ends of one connection, for a test. `keep` holds what must outlive them (servers).
struct ConnectedPair {
  std::shared_ptr<void> keep = {};
  std::shared_ptr<Connection> a = {};
  std::shared_ptr<Connection> b = {};
};

// A way to connect: what the suite runs over. The peers' names are "a" and "b".
struct ConnectionWay {
  std::string name;
  std::string kind;  // Connection::kind()
  std::function<ConnectedPair()> connect;
  // At most this many bytes, and one message, are on their way before a sender waits.
  size_t limit_bytes = 0;
};

inline std::ostream& operator<<(std::ostream& out, const ConnectionWay& way) {
  return out << way.name;
}

// What every kind of connection must do. A test program lists connection_conformance_test.cc,
// connection_endings_test.cc and connection_events_test.cc among its sources and says
// INSTANTIATE_TEST_SUITE_P(Name, ConnectionConformance, testing::Values(way...)).
class ConnectionConformance : public testing::TestWithParam<ConnectionWay> {
 protected:
  // Everything goes back.
  static Connection::Events echo(Connection& connection) {
    return {[&connection](Message message) { connection.send(std::move(message)); },
            [](const Status&) {}};
  }

  ConnectedPair pair_ = GetParam().connect();
  inline static const Status kFinished{Code::Aborted, "[Test] finished"};
};

}  // namespace cohort::internal
