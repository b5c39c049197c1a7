#include <cohort/torch.h>

#include <iostream>

int main() {
  const cohort::Tensor x(torch::tensor({1.f, 2.f, 3.f, 4.f}));
  std::cout << "the sum is " << cohort::sum(x).to<float>() << '\n';
}
