#include "base/speed.h"

/* Measured on cores with vectors of 64 bytes at 2 to 3 GHz, with 1 MiB of L2 and a share in 32 MiB of L3. */
const base_speed base_speed_default = {.flops_per_ns = 60,
                                       .near_per_ns = 20,
                                       .far_per_ns = BASE_FAR_PER_NS,
                                       .memory_per_ns = 12,
                                       .weights_per_ns = 40,
                                       .step_ns = 300,
                                       .loop_ns = 667,
                                       .hand_over_ns = BASE_HAND_OVER_NS,
                                       .thread_ns = BASE_THREAD_NS,
                                       .task_ns = 40000,
                                       .own_bytes = 1 << 19,
                                       .shared_bytes = 1 << 22};

double base_work_ns(const base_speed *speed, double flops, double bytes) {
  const double computing = flops / speed->flops_per_ns, moving = bytes / speed->memory_per_ns;
  return computing > moving ? computing : moving;
}
