/* roofline.h -- what this machine can do at most, measured: the limits that times are held against. */
#ifndef RUNTIME_ROOFLINE_H
#define RUNTIME_ROOFLINE_H
#include "base/base.h"

/* See td_roofline_measure. `threads` at least 1, `seconds` above 0. */
td_status run_roofline(uint32_t threads, double seconds, td_roofline *roofline, td_error *err);
#endif
