/* measure.h -- time and memory of this process, and what a model and a session say of theirs. */
#ifndef COMMON_MEASURE_H
#define COMMON_MEASURE_H
#include "base/base.h"

double app_now_ms(void); /* monotonic */

/* Memory of the process in KiB, the most seen at any sample so far. Start zeroed. */
typedef struct app_memory {
  uint64_t anon_peak_kib; /* not backed by a file: weights that are mapped do not count */
  uint64_t peak_rss_kib;
} app_memory;
void app_memory_sample(app_memory *memory);

typedef struct app_figures {
  td_model_stats model;
  td_session_stats session;
  double first_ms, latency_ms; /* of the first run; mean of those after it, or the first when it was the only one */
  app_memory memory;
} app_figures;

/* Fills model and session. */
td_status app_read_figures(const td_model *model, const td_session *session, app_figures *figures, td_error *err);
#endif
