#pragma once

#include <cohort/cohort.h>

// The two networks that steps are measured with.
namespace cohort::bench {

// 784-512-512-10, for pictures of 28 x 28 as rows.
inline nn::Sequential mlp() {
  return nn::Sequential{nn::Dense(784, 512), nn::relu, nn::Dense(512, 512), nn::relu,
                        nn::Dense(512, 10)};
}

// LeNet-like, for pictures of 28 x 28 with one channel.
inline nn::Sequential lenet() {
  return nn::Sequential{nn::Conv2d(1, 6, 5, {.padding = 2}),
                        nn::relu,
                        nn::MaxPool2d(2),
                        nn::Conv2d(6, 16, 5),
                        nn::relu,
                        nn::MaxPool2d(2),
                        nn::Flatten(),
                        nn::Dense(400, 120),
                        nn::relu,
                        nn::Dense(120, 84),
                        nn::relu,
                        nn::Dense(84, 10)};
}

}  // namespace cohort::bench
