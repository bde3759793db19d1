/* state_priv.h -- session state: what runs keep for the next one (state.c). */
#ifndef RUNTIME_STATE_PRIV_H
#define RUNTIME_STATE_PRIV_H
#include "runtime/runtime.h"

/* How the value that a run gives to a state gets there. */
typedef enum run_way {
  RUN_STAYS,      /* it is there */
  RUN_STRAIGHT,   /* copied */
  RUN_OVER_SPARE, /* copied to the second block, which becomes the first */
  RUN_BESIDE      /* made there, likewise */
} run_way;

/* What a session keeps of one state. Two blocks, so that a new value can be made of the old one and all states change
 * together, or none does. */
typedef struct run_state {
  base_value initial;  /* in constants */
  base_value next;     /* made, not yet in force */
  plan_making made;    /* where steps make it now */
  run_way way;         /* of the run that ends */
  void *block, *spare; /* `block` holds what is in force now */
  size_t block_bytes, spare_bytes;
} run_state;

typedef struct run_states {
  run_state *at;
  uint64_t copied; /* bytes, by the last run */
} run_states;

td_status run_open_states(run_session *s, td_error *err);
/* Do steps make some state in memory of the states, now or with the inputs that are taken? Then it is placed. */
bool run_places_states(const run_session *s);
td_status run_place_states(run_session *s, td_error *err);
td_status run_store_states(run_session *s); /* when a run ends without an error */
uint64_t run_state_bytes(const run_session *s);
void run_close_states(run_session *s);

/* ---- deep copies ---- */

/* Each in one block; futures stay what they are. Adds the bytes to *bytes; false: overflow. */
bool run_copy_bytes(const base_value *value, size_t *bytes);
/* Copies to *at on, which is moved on. */
base_value run_copy_value(const base_value *from, char **at);
#endif
