/* limits.c -- how long work takes at least, by the roofline model (Williams, Waterman, Patterson 2009). */
#include "profile/profile.h"

#include <string.h>

/* 0: there is none for the type. */
static double peak_of(const td_roofline *r, const char *isa, td_dtype dtype, uint32_t threads) {
  uint32_t best_threads = 0;
  double peak = 0;
  if (!isa && r->peak_count) isa = r->peaks[r->peak_count - 1].isa;
  for (uint32_t i = 0; i < r->peak_count; i++) {
    const td_peak *p = &r->peaks[i];
    if (p->dtype != dtype || strcmp(p->isa, isa) != 0 || p->threads > threads || p->threads < best_threads) continue;
    best_threads = p->threads;
    peak = p->per_second;
  }
  return peak;
}

td_limits prof_limits_of(const td_roofline *roofline, const char *isa, uint32_t threads) {
  td_limits limits = {.peak = peak_of(roofline, isa, TD_F32, threads),
                      .peak_bf16 = peak_of(roofline, isa, TD_BF16, threads),
                      .peak_i8 = peak_of(roofline, isa, TD_I8, threads)};
  for (uint32_t i = 0; i < roofline->bandwidth_count; i++) {
    const td_bandwidth *b = &roofline->bandwidths[i];
    if (b->threads > threads || b->read <= 0 || b->copy <= 0) continue; /* rows of a level stand by threads */
    /* What writing adds to a copy; never faster than reading. */
    double per_byte = 2 / b->copy - 1 / b->read;
    limits.read[b->level] = b->read;
    limits.write[b->level] = per_byte > 1 / b->read ? 1 / per_byte : b->read;
    limits.capacity[b->level] = (double)b->bytes * b->threads;
  }
  return limits;
}

/* Seconds that `bytes` bytes of a set of `set` bytes take at least: of a set that is swept again and again, each level
 * can keep as much as it holds, whatever is replaced when. */
static double transfer(const td_limits *limits, const double *rate, double bytes, double set) {
  double seconds = 0, held = 0;
  for (int level = TD_L1; level <= TD_DRAM; level++) {
    double part = level == TD_DRAM || set <= limits->capacity[level] ? 1 : limits->capacity[level] / set;
    if (part <= held || rate[level] <= 0) continue;
    seconds += (part - held) * bytes / rate[level];
    held = part;
  }
  return seconds;
}

/* Of a type without a peak of its own that of f32. */
static double peak_for(const td_limits *l, const td_work *work) {
  const double narrow = work->multiplied == TD_BF16 ? l->peak_bf16 : work->multiplied == TD_I8 ? l->peak_i8 : 0;
  return narrow > 0 ? narrow : l->peak;
}

double prof_limit_ms(const td_limits *limits, const td_work *work) {
  const double near = work->read + work->written, far = work->footprint;
  double memory = transfer(limits, limits->read, work->const_bytes, far) +
                  transfer(limits, limits->read, work->read, near) +
                  transfer(limits, limits->write, work->written, near);
  const double peak = peak_for(limits, work), arithmetic = peak > 0 ? work->flops / peak : 0;
  return 1e3 * (memory > arithmetic ? memory : arithmetic);
}

/* A little above the peak is a clock that was higher than before. Bandwidths depend on what lies where, which is known
 * roughly: only what is far above them tells of wrong figures. */
static const double beats_peak = 1.1, beats_limit = 2, least_ms = 0.005;

bool prof_beats_limit(const td_limits *limits, const td_work *work, double ms) {
  return ms >= least_ms && (work->flops > beats_peak * peak_for(limits, work) * ms * 1e-3 ||
                            prof_limit_ms(limits, work) > beats_limit * ms);
}
