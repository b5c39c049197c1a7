#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/scheduler_resolvers.h"
#include "errors/catalogue.h"
#include "support/coordinated_cluster.h"
#include "support/local_workers.h"
#include "support/scoped_environment.h"
#include "support/temporary_file.h"

namespace cohort::test {
namespace {

using std::chrono::milliseconds;

const ClusterSpec kCluster({{"ps", {"h:1"}}, {"worker", {"h:2", "h:3"}}});

// The cluster that this TF_CONFIG describes.
auto tf_config(const std::string& text) {
  return [text] {
    const ScopedEnvironment environment(ScopedEnvironment::Variables{{"TF_CONFIG", text}});
    const TFConfigClusterResolver resolver;
    (void)resolver.cluster_spec();
    (void)resolver.task_id();
  };
}

TEST(Errors, OfClustersAndResolvers) {
  const ScopedEnvironment no_launcher({{"TF_CONFIG", std::nullopt},
                                       {"OMPI_COMM_WORLD_RANK", std::nullopt},
                                       {"RANK", std::nullopt},
                                       {"SLURM_PROCID", std::nullopt},
                                       {"KUBERNETES_SERVICE_HOST", std::nullopt},
                                       {"SM_HOSTS", std::nullopt}});
  const TemporaryDirectory directory;
  const std::string twice = directory.write("hosts", "n1 slots=2\nn1 slots=1\n");
  const std::string wrong = directory.write("wrong", "n1 slot=2\n");
  check_section(
      "Clusters and resolvers",
      {
          {tf_config("{")},
          {tf_config(R"({"cluster": {"worker": "h:1"}})")},
          {tf_config(R"({"clutser": {"worker": ["h:1"]}})")},
          {tf_config(
              R"({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": "one"}})")},
          {[] { kCluster.num_tasks("wroker"); }},
          {[] { kCluster.task_address("worker", 7); }},
          {[] {
            ClusterSpec({{"worker", {"h:1"}}, {"worker", {"h:2"}}});
          }},
          {[] { validate_task(kCluster, "worker", 2); }},
          {[] {
            validate_task({{"wroker", {"h:1"}}}, "wroker", 0);
          }},
          {[] { id_in_cluster(kCluster, "worker", std::nullopt); }},
          {[] { HostfileClusterResolver("/no/such/file"); }, "Check the path."},
          {[&] { HostfileClusterResolver resolver(twice); }},
          {[&] { HostfileClusterResolver resolver(wrong); }},
          {[] { OpenMpiClusterResolver(); }},
          {[] { TorchrunClusterResolver(); }},
          {[] { SlurmClusterResolver(); }},
          {[] { SageMakerClusterResolver().cluster_spec(); }},
          {[] { KubernetesClusterResolver().cluster_spec(); },
           "Run the program in a pod, or give `.list_pods`."},
          {[] { UnionClusterResolver(UnionClusterResolver::Resolvers{}); }},
          {[] {
            const ScopedEnvironment environment({{"RANK", "0"}, {"WORLD_SIZE", std::nullopt}});
            strategy_from_environment();
          }},
      });
}

TEST(Errors, OfServersAndWorkers) {
  const std::string port_in_use = free_addresses(1)[0];
  const ClusterSpec own({{"worker", {port_in_use}}});
  const Server server(own, {.job_name = "worker", .task_index = 0});
  const std::string target = "grpc://" + port_in_use;
  const TemporaryDirectory directory;
  const auto start = [](const ClusterSpec& cluster, const SimpleResolverOptions& task,
                        const MultiWorkerOptions& options = {}) {
    MultiWorkerMirroredStrategy(SimpleClusterResolver(cluster, task), options);
  };
  check_section(
      "Servers, sessions with servers, and workers",
      {
          {[&] { Server(own, {.job_name = "worker", .task_index = 0}); },
           "Stop the other process, or give this task another port."},
          {[] {
            Server(ClusterSpec({{"worker", {"10.0.0.1:2222"}}}),
                   {.job_name = "worker", .task_index = 0});
          }},
          {[] { Server(kCluster, {.job_name = "wroker", .task_index = 0}); }},
          {[] { const Server any(kCluster); }},
          {[] {
            Server(ClusterSpec({{"worker", {"localhost"}}}));
          }},
          {[] { Session(Graph(), "grpc://localhost:1", {.timeout = milliseconds(300)}); },
           "Start the server, or correct the address."},
          {[&] {
             Graph graph;
             const auto building = graph.as_default();
             const auto scope = device("/job:worker/task:5");
             const Tensor y = constant(1.f) + 1.f;
             Session(graph, target).run(y);
           },
           "Name a task of the cluster."},
          {[&] { read_credentials(directory.path()); }, "`cohort credentials` makes them."},
          {[&] {
            ServerOptions options;
            options.credentials.token = "short";
            Server::create_local_server(options);
          }},
          {[&] { start(kCluster, {}); }},
          {[&] { start(kCluster, {.task_type = "worker", .task_id = 3}); }},
          {[&] { start(kCluster, {.task_type = "ps", .task_id = 0}); }},
          {[&] {
            start({{"worker", {"h:1", "h:1"}}}, {.task_type = "worker", .task_id = 0});
          }},
          {[&] { start({}, {}, {.start_timeout = milliseconds(0)}); }},
          {[&] { start({}, {}, {.communication = {.bytes_per_pack = -1}}); }},
          {[&] {
             start(free_workers(2), {.task_type = "worker", .task_id = 0},
                   {.start_timeout = milliseconds(300)});
           },
           "Start all workers, with the same cluster; the text names the missing ones."},
          {[&] {
             throw_if_error(run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
               strategy.run([&] {
                 get_replica_context()->all_reduce(
                     strategy.worker_id() == 0 ? ReduceOp::Sum : ReduceOp::Max, Tensor(1.f));
               });
             })[0]);
           },
           "Make the same calls in the same order on all workers."},
          {[&] {
             throw_if_error(run_workers(2, [](MultiWorkerMirroredStrategy& strategy) {
               strategy.create([&] {
                 return Variable(strategy.worker_id() == 0 ? ones({2}) : ones({3}), {.name = "v"});
               });
             })[0]);
           },
           "Build the same model on all workers."},
      });
}

TEST(Errors, OfParameterServersAndTheCoordinator) {
  CoordinatedCluster here(1, 1);
  ClusterCoordinator coordinator(here.strategy, {.functions_per_worker = 1});
  MirroredStrategy mirrored({"CPU:0"});
  const Variable local(1.f, {.name = "local"});
  const auto next = function([](Iterator it) { return it.next().tensor(); }, {.name = "next"});
  const auto check = [](const ClusterSpec& cluster, const SimpleResolverOptions& task = {}) {
    ParameterServerStrategy(SimpleClusterResolver(cluster, task));
  };
  check_section(
      "Parameter servers and the coordinator",
      {
          {[&] { check({}); }},
          {[&] {
             check({{"worker", {"h:1"}}});
           },
           "Add a `ps` job."},
          {[&] {
             check({{"ps", {"h:1"}}, {"worker", {"h:2"}}, {"trainer", {"h:3"}}});
           },
           "Jobs are chief, worker, ps and evaluator."},
          {[&] {
             check({{"ps", {"h:1"}}, {"worker", {"h:2"}}, {"chief", {"h:3", "h:4"}}});
           },
           "Leave one."},
          {[] {
             ParameterServerStrategy(SimpleClusterResolver(free_cluster(1, 1)),
                                     {.connect_timeout = milliseconds(200)});
           },
           "Start the servers: `cohort serve`, or `serve_task()`."},
          {[&] { ClusterCoordinator other(mirrored); }},
          {[&] {
            const auto scope = here.strategy.scope();
            Graph graph;
            const auto building = graph.as_default();
            Variable(1.f, {.name = "v"});
          }},
          {[&] {
            CoordinatedCluster cut(1, 1, {.variable_partitioner = [](const Shape&, DType, int) {
                                     return std::vector<int64_t>{1, 2};
                                   }});
            cut.strategy.create([] { return Variable(ones({4, 4}), {.name = "table"}); });
          }},
          {[&] {
            CoordinatedCluster small(1, 1, {.ps_memory_bytes = 10});
            small.strategy.create([] { return Variable(ones({4, 4}), {.name = "table"}); });
          }},
          {[&] { coordinator.schedule([&] { return local.read_value(); }); }},
          {[&] { coordinator.schedule_on(7, [] { return Tensor(1.f); }); },
           "Workers are numbered from 0."},
          {[&] {
            const auto result = coordinator.schedule([] { return Tensor(1.f); });
            coordinator.schedule([](const Tensor& x) { return x; }, result);
          }},
          {[&] {
             const auto bad = coordinator.schedule(
                 [](const Tensor& x) { return gather(x, Tensor({9})); }, Tensor({1.f}));
             (void)capture_status([&] { coordinator.join(); });
             coordinator.fetch(bad);
           },
           "Correct the function; `join()` and `fetch()` throw what it threw on the worker."},
          {[&] {
            PerWorkerDataset data = coordinator.create_per_worker_dataset(data::range(3));
            data.iterator().next();
          }},
          {[&] { coordinator.schedule(next, data::range(3).iterator()); }},
          {[&] {
             const auto input = coordinator.create_per_worker_dataset(data::range(1)).iterator();
             coordinator.schedule(next, input);
             const auto after_the_end = coordinator.schedule(next, input);
             (void)capture_status([&] { coordinator.join(); });
             coordinator.fetch(after_the_end);
           },
           "`repeat()` the data and schedule a fixed number of steps, or stop when `schedule()` or "
           "`join()` throws `OutOfRange`."},
          {[&] {
            coordinator.create_per_worker_dataset([] {
              Variable(1.f, {.name = "count"});
              return data::range(3);
            });
          }},
      });
}

}  // namespace
}  // namespace cohort::test
