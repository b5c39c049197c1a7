#pragma once

namespace cohort {

// Whose formula and defaults an optimizer or a layer has, where torch and TensorFlow (Keras) give
// one name to different things. Options that are left out have that library's default.
enum class Formula { Torch, TensorFlow };

}  // namespace cohort
