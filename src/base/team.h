/* team.h -- work that the workers of a parallel kernel do together again and again, with little between: the steps of a
 * layer over time. Worker 0 leads, the others follow:
 *
 *     if (call->worker) base_team_follow(call);
 *     else while (...) base_team_do(call, piece, user);     then, whatever happened, base_team_end(call);
 *
 * Of each round every worker has the same piece, so that it finds in its caches what it left there. Nobody who is late
 * is waited for: pieces that nobody has begun the leader does itself. Who does a piece is chance: what it computes must
 * not depend on that. */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H
#include "base/call.h"

/* Of the leader: all pieces of a round. It returns when they are done; what they have written those of the next round
 * see. */
void base_team_do(const base_call *call, base_piece_fn piece, const void *user);
/* Of the leader, once, after its last round. */
void base_team_end(const base_call *call);
/* Of the others: pieces, until the leader ends. */
void base_team_follow(const base_call *call);

/* In a loop that waits for another thread: lets the other thread of the core run, and the loop end cheaply. */
static inline void base_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  atomic_signal_fence(memory_order_seq_cst);
#endif
}
#endif
