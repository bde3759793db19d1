/* launch_request.c -- the options that say how instances are laid out. */
#include <string.h>

#include "common/launch_options.h"

static bool whole(const char *text, int64_t low, int64_t *value) {
  return base_str_int(base_str_of(text), value) && *value >= low && *value <= SYS_MOST_CPUS;
}

static const char *list_of(const char *text) { return text && *text && strcmp(text, "-1") != 0 ? text : NULL; }

td_status launch_read_request(const launch_words *w, launch_request *r, td_error *err) {
  int64_t instances = 0;
  const char *const *given = w->given;
  *r = (launch_request){.cores = list_of(given[LAUNCH_CORES]),
                        .nodes = list_of(given[LAUNCH_NODES]),
                        .index = list_of(given[LAUNCH_INDEX]),
                        .logical = given[LAUNCH_LOGICAL],
                        .efficient = given[LAUNCH_EFFICIENT],
                        .bind = given[LAUNCH_BIND],
                        .share = given[LAUNCH_SHARE],
                        .close = given[LAUNCH_STRATEGY] && strcmp(given[LAUNCH_STRATEGY], "close") == 0,
                        .latency = given[LAUNCH_LATENCY],
                        .throughput = given[LAUNCH_THROUGHPUT]};
  if (given[LAUNCH_INSTANCES] && !whole(given[LAUNCH_INSTANCES], -1, &instances))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--ninstances '%s' is no count", given[LAUNCH_INSTANCES]);
  if (given[LAUNCH_CORES_EACH] && !whole(given[LAUNCH_CORES_EACH], -1, &r->cores_each))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--ncores-per-instance '%s' is no count",
                     given[LAUNCH_CORES_EACH]);
  r->instances = instances > 0 ? (uint32_t)instances : 0;
  if (r->latency && r->throughput)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--latency-mode and --throughput-mode exclude one another");
  if (r->throughput && (r->instances || r->cores_each > 0)) r->throughput = false; /* --multi-instance with counts */
  if (r->latency && (r->instances || r->cores_each || r->logical))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "--latency-mode says the counts itself: leave out --ninstances, --ncores-per-instance and "
                     "--use-logical-cores");
  if (r->throughput) r->bind = true;
  return TD_OK;
}
