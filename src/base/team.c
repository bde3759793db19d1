/* team.c -- see team.h. A lane's `piece` is a job's number and a state of that job; what older jobs have left there
 * counts for nothing. A piece is begun by whoever turns OPEN into BEGUN. */
#include "base/team.h"

#include <sched.h>

enum { OPEN = 1, BEGUN, DONE, ENDED, STATE_SHIFT = 3 };
enum { LOOKS = 1 << 10 /* some 20 us: then others may need our CPU */ };

static uint64_t word_of(const base_call *call, uint64_t state) { return (uint64_t)call->job << STATE_SHIFT | state; }

static void wait_a_little(uint32_t *looks) {
  base_pause();
  if (++*looks % LOOKS == 0) sched_yield();
}

static bool begin(base_lane *lane, const base_call *call) {
  uint64_t open = word_of(call, OPEN);
  return atomic_compare_exchange_strong_explicit(&lane->piece, &open, word_of(call, BEGUN), memory_order_acquire,
                                                 memory_order_acquire);
}

void base_team_do(const base_call *call, base_piece_fn piece, const void *user) {
  for (uint32_t i = 1; i < call->workers; i++) {
    base_lane *lane = &call->lanes[i];
    lane->run = piece;
    lane->user = user;
    atomic_store_explicit(&lane->piece, word_of(call, OPEN), memory_order_release);
  }
  piece(user, 0, call->workers);
  for (uint32_t i = 1, looks = 0; i < call->workers; i++) {
    base_lane *lane = &call->lanes[i];
    if (begin(lane, call)) {
      piece(user, i, call->workers);
      continue;
    }
    for (uint64_t word; (word = atomic_load_explicit(&lane->piece, memory_order_acquire)) != word_of(call, DONE);) {
      BASE_ASSERT(word == word_of(call, BEGUN)); /* nobody else opens, ends or reuses it meanwhile */
      wait_a_little(&looks);
    }
  }
}

void base_team_end(const base_call *call) {
  for (uint32_t i = 1; i < call->workers; i++)
    atomic_store_explicit(&call->lanes[i].piece, word_of(call, ENDED), memory_order_release);
}

void base_team_follow(const base_call *call) {
  base_lane *lane = &call->lanes[call->worker];
  for (uint32_t looks = 0;;) {
    const uint64_t word = atomic_load_explicit(&lane->piece, memory_order_relaxed);
    if (word == word_of(call, ENDED)) return;
    if (word != word_of(call, OPEN) || !begin(lane, call)) {
      wait_a_little(&looks);
      continue;
    }
    lane->run(lane->user, call->worker, call->workers);
    atomic_store_explicit(&lane->piece, word_of(call, DONE), memory_order_release);
  }
}
