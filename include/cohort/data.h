#pragma once

#include "cohort/dataset.h"
#include "cohort/readers.h"

// Input pipelines: descriptions of where elements come from and what happens to them on the way.
//
//   auto train = data::from_tensor_slices(images, labels)
//                    .shuffle(10'000)
//                    .batch(256)
//                    .map([](Tensor x, Tensor y) { return std::tuple(x / 255.f, y); })
//                    .prefetch();
//   for (auto [image, label] : train) ...
