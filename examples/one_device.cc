// The smallest strategy: everything on one device. Good for trying code out before scaling it.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  OneDeviceStrategy strategy("/cpu:0");
  auto scope = strategy.scope();
  Variable v(1.0f);
  std::cout << v.device() << '\n';

  auto step_fn = [](int x) { return x * 2; };
  int result = 0;
  for (int i = 0; i < 10; ++i) result += strategy.run(step_fn, i);
  std::cout << result << '\n';
}
