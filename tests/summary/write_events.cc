// Writes one event of each kind into the directory given.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main(int, char** argv) {
  SummaryWriter writer(argv[1]);
  for (int step = 0; step < 3; ++step) writer.add_scalar("loss", 1.0 / (1 + step), step);
  writer.add_histogram("weights", Tensor({-1.f, 0.f, 0.5f, 0.5f}), 2);
  writer.add_image("picture", Tensor({{0.f, 1.f, 0.5f}, {1.f, 0.f, 0.25f}}), 2);
  writer.add_text("note", "first *run*", 2);
  Graph graph;
  {
    const auto building = graph.as_default();
    const Tensor x = placeholder(kFloat32, {2}, "x");
    identity(x * 2.f);
  }
  writer.add_graph(graph);
  writer.close();
  std::cout << writer.path() << '\n';
}
