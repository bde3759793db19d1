/* footprint.h -- what runs take of memory: allocations and page faults. */
#ifndef CLI_FOOTPRINT_H
#define CLI_FOOTPRINT_H
#include <stdatomic.h>

#include "cli/cli.h"

/* Counts what a model and its sessions allocate. It must stay where it is while they live. */
typedef struct cli_footprint {
  td_allocator allocator; /* to load the model with */
  _Atomic uint64_t allocations, bytes;
  uint64_t counted, counted_bytes;     /* at the end */
  uint64_t minor_faults, major_faults; /* of the process */
} cli_footprint;
void cli_footprint_open(cli_footprint *footprint);
/* What is counted comes between these two. */
void cli_footprint_begin(cli_footprint *footprint);
void cli_footprint_end(cli_footprint *footprint);
/* What there was, of `runs` runs, to standard output. */
void cli_footprint_print(const cli_footprint *footprint, uint64_t runs);
#endif
