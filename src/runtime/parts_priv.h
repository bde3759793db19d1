/* parts_priv.h -- steps of a batch on a few samples at a time: on one thread (parts.c), or dealt out to
 * several (shares.c). */
#ifndef RUNTIME_PARTS_PRIV_H
#define RUNTIME_PARTS_PRIV_H
#include "runtime/session_priv.h"

/* See plan_means: one of RUN_KEPT_SHARE parts of the L3 caches in which the pool's CPUs lie, since what else is in them
 * is often somebody else's. An L3 of more than RUN_LARGEST_L3 bytes is that of a package, across which a core reads
 * little faster than from memory (Granite Rapids: 29 GB/s, from L2 187): the L2 of each thread counts there. `pool`
 * NULL: of one cache. */
enum { RUN_KEPT_SHARE = 4, RUN_LARGEST_L3 = 100 << 20 };
size_t run_find_cache(run_pool *pool);
/* The same of a machine, of whose L3 caches `caches` are of the pool's CPUs. */
size_t run_kept_bytes(const sys_machine *machine, uint32_t caches, uint32_t threads);
/* Room for what run_parts keeps, for all parts of the binding. */
td_status run_prepare_parts(run_bound *bound, td_error *err);
/* Runs the steps of `parts`, part by part. */
td_status run_parts(run_session *s, const plan_parts *parts);
/* Makes sizes and views of steps [first, end) known, for all samples: a view needs no more than addresses. */
td_status run_prepare_range(run_session *s, uint32_t first, uint32_t end);
/* The observer, if there is one, hears of steps [first, end): before they run in parts, and after the last part. */
void run_range_begins(run_session *s, uint32_t first, uint32_t end);
void run_range_ends(run_session *s, uint32_t first, uint32_t end);

/* ---- shares.c ---- */

td_status run_prepare_shares(run_session *s, run_bound *bound, td_error *err);
/* The shares of `parts`, if it is the first of them; NULL: it is in none. */
const run_shares *run_shares_at(const run_session *s, uint32_t parts);
/* Runs all their steps; *end: the step behind them. */
td_status run_all_shares(run_session *s, const run_shares *h, uint32_t *end);
/* As run_take_code, in the calls that threads have for themselves. */
void run_take_shared_code(run_session *session, run_bound *bound);
#endif
