/* measure.h -- time and memory of this process, and what a model and a session say of theirs. */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H
#include "values.h"

double cli_now_ms(void); /* monotonic */

/* Memory of the process in KiB, the most seen at any sample so far. Start zeroed. */
typedef struct cli_memory {
  uint64_t anon_peak_kib; /* not backed by a file: weights that are mapped do not count */
  uint64_t peak_rss_kib;
} cli_memory;
void cli_memory_sample(cli_memory *memory);

/* The name of the widest level of instruction sets (base/levels.def) among BASE_ISA_* bits. */
const char *cli_isa_name(uint32_t isa);
/* Where a kernel's name goes on with the level that it is of: "_avx2". */
const char *cli_isa_suffix(const char *name);

typedef struct cli_figures {
  td_model_stats model;
  td_session_stats session;
  double first_ms, latency_ms; /* of the first run; mean of those after it, or the first when it was the only one */
  cli_memory memory;
} cli_figures;

/* Fills model and session. */
td_status cli_read_figures(const td_model *model, const td_session *session, cli_figures *figures, td_error *err);
#endif
