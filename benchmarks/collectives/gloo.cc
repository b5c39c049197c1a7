#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "collectives/peers.h"

namespace cohort::bench {

// The quicker of its two algorithms is chosen for each size: ring from 64 KB, bcube below.
AllReduce gloo_all_reduce(const std::string& directory, int rank, int size) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(directory);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  return [context](float* values, size_t count) {
    using Options = gloo::AllreduceOptions;
    Options options(context);
    options.setAlgorithm(count * sizeof(float) < (64 << 10) ? Options::Algorithm::BCUBE
                                                            : Options::Algorithm::RING);
    options.setOutput(values, count);
    using Function = void (*)(void*, const void*, const void*, size_t);
    options.setReduceFunction(static_cast<Function>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
}

}  // namespace cohort::bench
