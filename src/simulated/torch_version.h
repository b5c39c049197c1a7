#pragma once

// The only place that knows in what LibTorch 1.13 and 2.x differ for a device.

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/csrc/api/include/torch/version.h>
#endif

#define COHORT_TORCH_2 (TORCH_VERSION_MAJOR >= 2)

#if COHORT_TORCH_2
#define COHORT_ALLOCATE_CONST   // Allocator::allocate may change the allocator
#define COHORT_STREAM_NOEXCEPT  // two functions of a device guard may throw
#else
#define COHORT_ALLOCATE_CONST const
#define COHORT_STREAM_NOEXCEPT noexcept
#endif
