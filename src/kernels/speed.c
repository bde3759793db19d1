#include "kernels/speed.h"

base_speed kern_speed(const kern_tuning *t) {
  base_speed speed = base_speed_default;
  if (!t) return speed;
  speed.far_per_ns = (double)t->far_per_ns;
  speed.hand_over_ns = (double)t->hand_over_ns;
  speed.thread_ns = (double)t->thread_ns;
  return speed;
}
