#pragma once

namespace cohort::internal {

// From here on the kernel library takes the memory of small tensors from malloc as it is. It takes
// aligned memory for all of them otherwise, for which glibc cuts larger blocks to pieces; where
// another thread gives those back than the one that took them, they are not put together again, and
// a process that hands small tensors to other threads grows for ever.
void take_small_blocks_from_malloc();

}  // namespace cohort::internal
