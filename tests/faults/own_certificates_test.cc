// Certificates that `cohort credentials` made, as docs/security.md tells.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/free_ports.h"
#include "support/scoped_environment.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

class OwnCertificates : public testing::Test {
 protected:
  int make(const std::string& directory, const std::string& tasks) {
    const std::string command = COHORT_COMMAND " credentials ";
    return std::system((command + directory + " " + tasks + " > /dev/null 2>&1").c_str());
  }
  Server worker(const std::string& party) {
    return Server(cluster_, {.job_name = "worker", .task_index = 0},
                  {.credentials = read_credentials(directory_.path() + "/" + party)});
  }
  static float doubled(const Server& server, const Credentials& credentials) {
    Graph graph;
    const auto building = graph.as_default();
    const Tensor x = placeholder(kFloat32, {});
    const Tensor y = 2 * x;
    Session session(graph, server.target(),
                    {.timeout = std::chrono::seconds(5), .credentials = credentials});
    return session.run(y, {{x, Tensor(4.f)}}).to<float>();
  }

  const ScopedEnvironment way_{{{"COHORT_TRANSPORT", "grpc"}}};
  const TemporaryDirectory directory_;
  const ClusterSpec cluster_ = test::free_cluster(1, 1);
};

TEST_F(OwnCertificates, LetClientsIn) {
  ASSERT_EQ(make(directory_.path(), "worker:0"), 0);
  const Server server = worker("worker_0");
  EXPECT_EQ(doubled(server, read_credentials(directory_.path() + "/client")), 8);
}

TEST_F(OwnCertificates, OfAnotherAuthorityDoNot) {
  ASSERT_EQ(make(directory_.path(), "worker:0"), 0);
  ASSERT_EQ(make(directory_.path() + "/other", "worker:0"), 0);
  const Server server = worker("worker_0");
  EXPECT_FALSE(error_of([&] {
                 doubled(server, read_credentials(directory_.path() + "/other/client"));
               }).ok());
}

TEST_F(OwnCertificates, AreAddedToAnAuthorityThatThereIs) {
  ASSERT_EQ(make(directory_.path(), "ps:0"), 0);
  const Credentials client = read_credentials(directory_.path() + "/client");
  ASSERT_EQ(make(directory_.path(), "worker:0"), 0);
  EXPECT_EQ(doubled(worker("worker_0"), client), 8);
}

TEST_F(OwnCertificates, AreReadByTheirOwnerAlone) {
  using std::filesystem::perms;
  ASSERT_EQ(make(directory_.path(), "worker:0"), 0);
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory_.path())) {
    EXPECT_EQ(file.status().permissions() & (perms::group_all | perms::others_all), perms::none)
        << file.path();
  }
}

TEST_F(OwnCertificates, AreNotMadeByAnAuthorityThatIsNone) {
  std::filesystem::create_directory(directory_.path() + "/authority");
  EXPECT_NE(make(directory_.path(), "worker:0"), 0);
}

TEST_F(OwnCertificates, AreNotMadeForWhatIsNoTask) {
  EXPECT_NE(make(directory_.path(), "worker"), 0);
  EXPECT_NE(make(directory_.path(), ""), 0);
}

}  // namespace
}  // namespace cohort
