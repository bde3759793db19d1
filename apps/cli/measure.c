/* measure.c -- the figures that `run`, `bench` and `info` print. */
#include "measure.h"

#include "sys/sys.h"

double cli_now_ms(void) { return (double)sys_clock_ns() * 1e-6; }

void cli_memory_sample(cli_memory *memory) {
  sys_memory now;
  if (!sys_memory_now(&now)) return;
  if (now.anon_bytes / 1024 > memory->anon_peak_kib) memory->anon_peak_kib = now.anon_bytes / 1024;
  memory->peak_rss_kib = now.peak_bytes / 1024;
}

/* Levels from the lowest up; a machine has a level when it has all its bits and all levels below. */
static const struct {
  uint32_t isa;
  const char *name;
} levels[] = {
    {BASE_ISA_AVX2 | BASE_ISA_FMA | BASE_ISA_F16C, "avx2"},
    {BASE_ISA_AVX512F | BASE_ISA_AVX512BW | BASE_ISA_AVX512VL | BASE_ISA_AVX512DQ, "avx512"},
    {BASE_ISA_AVX512_VNNI, "avx512_vnni"},
    {BASE_ISA_AVX512_BF16, "avx512_bf16"},
    {BASE_ISA_AMX_TILE | BASE_ISA_AMX_INT8 | BASE_ISA_AMX_BF16, "amx"},
};

const char *cli_isa_name(uint32_t isa) {
  const char *name = "scalar";
  for (size_t i = 0; i < sizeof levels / sizeof *levels && (isa & levels[i].isa) == levels[i].isa; i++) {
    name = levels[i].name;
  }
  return name;
}

td_status cli_read_figures(const td_model *model, const td_session *session, cli_figures *figures, td_error *err) {
  figures->model.size = sizeof figures->model;
  figures->session.size = sizeof figures->session;
  TRY(td_model_get_stats(model, &figures->model, err));
  return td_session_get_stats(session, &figures->session, err);
}
