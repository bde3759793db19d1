/* measure.c -- the figures that `run`, `bench` and `info` print. */
#include "measure.h"

#include <string.h>

#include "base/isa.h"
#include "sys/sys.h"

double cli_now_ms(void) { return (double)sys_clock_ns() * 1e-6; }

void cli_memory_sample(cli_memory *memory) {
  sys_memory now;
  if (!sys_memory_now(&now)) return;
  if (now.anon_bytes / 1024 > memory->anon_peak_kib) memory->anon_peak_kib = now.anon_bytes / 1024;
  memory->peak_rss_kib = now.peak_bytes / 1024;
}

/* Narrowest first. */
#define LEVEL(name, architecture, needs, ...) {needs, #name},
#define PART LEVEL
static const struct {
  uint32_t isa;
  const char *name;
} levels[] = {
#include "base/levels.def"
};

#undef LEVEL
#define LEVEL(name, ...) " " #name
const char cli_levels[] =
#include "base/levels.def"
    ;

const char *cli_isa_name(uint32_t isa) {
  size_t i = sizeof levels / sizeof *levels - 1;
  while (base_isa_lacks(isa, levels[i].isa)) i--;
  return levels[i].name;
}

const char *cli_isa_suffix(const char *name) {
  const size_t length = strlen(name);
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    const size_t level = strlen(levels[i].name);
    const char *end = name + length - level;
    if (length > level + 1 && end[-1] == '_' && strcmp(end, levels[i].name) == 0) return end - 1;
  }
  return name + length;
}

td_status cli_read_figures(const td_model *model, const td_session *session, cli_figures *figures, td_error *err) {
  figures->model.size = sizeof figures->model;
  figures->session.size = sizeof figures->session;
  TRY(td_model_get_stats(model, &figures->model, err));
  return td_session_get_stats(session, &figures->session, err);
}
