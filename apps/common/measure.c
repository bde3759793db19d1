/* measure.c -- the figures that `run`, `bench` and `info` print. */
#include "common/measure.h"

#include "sys/sys.h"

double app_now_ms(void) { return (double)sys_clock_ns() * 1e-6; }

void app_memory_sample(app_memory *memory) {
  sys_memory now;
  if (!sys_memory_now(&now)) return;
  if (now.anon_bytes / 1024 > memory->anon_peak_kib) memory->anon_peak_kib = now.anon_bytes / 1024;
  memory->peak_rss_kib = now.peak_bytes / 1024;
}

td_status app_read_figures(const td_model *model, const td_session *session, app_figures *figures, td_error *err) {
  figures->model.size = sizeof figures->model;
  figures->session.size = sizeof figures->session;
  TRY(td_model_get_stats(model, &figures->model, err));
  return td_session_get_stats(session, &figures->session, err);
}
