/* pickle_priv.h -- between the stack machine (pickle.c) and the table of globals (pickle_globals.c). */
#ifndef FMT_PICKLE_PRIV_H
#define FMT_PICKLE_PRIV_H
#include "fmt/pickle.h"

typedef struct fmt_machine {
  base_arena *arena;
  const uint8_t *file, *at, *end;
  const uint8_t *opcode; /* of the current instruction, for errors */
  fmt_objects stack, memo;
  BASE_VEC(uint32_t) marks; /* heights of the stack, rising */
  fmt_object *spare;        /* made and not yet used */
  uint32_t spare_count;
  fmt_storages *storages; /* NULL: nobody asks */
  bool stopped;
  td_error *err;
} fmt_machine;

/* What REDUCE does with the tuple of arguments. */
typedef td_status (*fmt_reduce_fn)(fmt_machine *m, const fmt_objects *args, fmt_object **out);

struct fmt_global_row {
  const char *module, *name;
  fmt_reduce_fn reduce;        /* NULL: not callable */
  td_dtype dtype;              /* of a storage class or dtype marker */
  bool is_storage, is_complex; /* is_complex: elements are pairs of `dtype` */
};

/* NULL when the table has none of that name. */
const struct fmt_global_row *fmt_find_global(base_str module, base_str name);
/* The tuple of a persistent id becomes a storage. */
td_status fmt_make_storage(fmt_machine *m, const fmt_objects *id, fmt_object **out);

fmt_object *fmt_new_object(fmt_machine *m, fmt_object_kind kind); /* NULL: out of memory */
td_status fmt_machine_fail(fmt_machine *m, td_status code, const char *format, ...) BASE_PRINTF(3, 4);
#endif
