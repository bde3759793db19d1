/* roofline.h -- the measured limits of this machine, and how long work takes at least within them. */
#ifndef CLI_ROOFLINE_H
#define CLI_ROOFLINE_H
#include "cli.h"

/* ---- the figures (roofline_cache.c) ---- */

/* The roofline for up to `threads` threads (0: all usable): as measured before, by this version on this CPU, or with
 * `fresh`, and where there is none, measured now and kept in the user's cache folder. A folder that cannot be written
 * to is no error. */
td_status cli_roofline_read(uint32_t threads, bool fresh, td_roofline *roofline, td_error *err);
/* Measures again, unless a second time has changed nothing before: figures taken on a busy machine are too small. Of
 * each the larger is kept, also in the cache folder. *raised: `roofline` has changed, which is said in a line. */
td_status cli_roofline_again(uint32_t threads, td_roofline *roofline, bool *raised, td_error *err);
json_t *cli_roofline_json(const td_roofline *roofline);
const char *cli_level_name(td_memory_level level); /* "L1", ... */

/* ---- limits (limits.c) ---- */

/* The roofline of one level of instruction sets and one number of threads. */
typedef struct cli_limits {
  double peak;                                  /* f32 operations per second */
  double read[TD_DRAM + 1], write[TD_DRAM + 1]; /* bytes per second; 0: there is no such level */
  double capacity[TD_DRAM + 1];                 /* bytes of all threads' share of the level */
} cli_limits;
/* Where a number of threads was not measured, the next lower one counts. `isa` NULL: the widest. */
cli_limits cli_limits_of(const td_roofline *roofline, const char *isa, uint32_t threads);

/* Work of one step, and the sizes that say where its data lies. */
typedef struct cli_work {
  double flops;
  double const_bytes;   /* read from constants */
  double read, written; /* bytes of activations */
  double footprint;     /* bytes of the whole model: constants and arena */
} cli_work;
/* At least so many ms: arithmetic and memory overlap, whichever takes longer. Of the activations of the step each level
 * keeps what it can hold; of its constants, what it can hold of the whole model, which runs through the caches between
 * two uses of one. */
double cli_limit_ms(const cli_limits *limits, const cli_work *work);
/* Is no machine so fast? Work that took `ms`: the limits are wrong. Not for algorithms that save arithmetic. */
bool cli_beats_limit(const cli_limits *limits, const cli_work *work, double ms);
#endif
