/* executor_priv.h -- who the workers of pools are: threads of the pool's own (executor_native.c), or those that the
 * program has by OpenMP or TBB (executor_borrowed.c). The build has one of them: -DTREADLE_THREADS. */
#ifndef RUNTIME_EXECUTOR_PRIV_H
#define RUNTIME_EXECUTOR_PRIV_H
#include "runtime/crew_priv.h"
#include "runtime/pool_priv.h"

/* Gives the pool its workers; p->threads: those there are, the caller's thread included. Workers that cannot be had are
 * done without. They get `name` (NULL: "treadle") and a number. */
td_status run_executor_open(run_pool *pool, const char *name, td_error *err);
void run_executor_close(run_pool *pool); /* no team may run */
/* They will be needed soon. */
void run_executor_rouse(run_pool *pool);
/* Calls team->job on the first team->workers of the team, the caller's thread as its leader. The status of the leader;
 * *failed: the first of the others whose part failed; NULL: none. Who has not begun when the leader is through may be
 * left out. */
td_status run_executor_share(run_team *team, run_worker **failed);
/* Those that run tasks while no step is shared with them. */
run_helpers run_executor_helpers(run_pool *pool);
/* Does a worker that waits look at what the process may use? Else leaders of teams do. */
bool run_executor_looks(const run_pool *pool);
#endif
