// What changes hands between threads under a lock of DPDK. Debian builds it without the thread
// sanitizer, which then does not see the lock and would report a race.
#pragma once

#ifdef TIERCAST_SANITIZE_THREAD
#include <sanitizer/tsan_interface.h>
#endif

namespace tiercast {

// Before `object` is handed to another thread.
inline void hand_over([[maybe_unused]] void* object) {
#ifdef TIERCAST_SANITIZE_THREAD
  __tsan_release(object);
#endif
}

// After `object` was handed to this thread.
inline void take_over([[maybe_unused]] void* object) {
#ifdef TIERCAST_SANITIZE_THREAD
  __tsan_acquire(object);
#endif
}

}  // namespace tiercast
