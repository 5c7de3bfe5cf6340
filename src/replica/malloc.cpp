#include "replica/malloc.h"

#include <malloc.h>

#include <climits>

namespace lockstep {

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // temporaries come from the heap,
  mallopt(M_TRIM_THRESHOLD, INT_MAX);  // which does not shrink
  mallopt(M_TOP_PAD, 64 << 20);        // and grows in large steps
}

}  // namespace lockstep
