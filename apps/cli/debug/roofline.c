/* roofline.c -- `treadle roofline`: what this machine can do at most. */
#include "cli/faults.h"
#include "common/roofline.h"

#include <string.h>

/* Numbers of threads that were measured, each once, in order. */
typedef struct columns {
  uint32_t threads[TD_ROOFLINE_ROWS];
  uint32_t count;
} columns;

static columns columns_of(const td_roofline *r) {
  columns c = {.count = 0};
  for (uint32_t i = 0; i < r->peak_count && strcmp(r->peaks[i].isa, r->peaks[0].isa) == 0; i++)
    c.threads[c.count++] = r->peaks[i].threads;
  return c;
}

static void print_head(const char *what, const columns *c) {
  printf("%s%-18s%s", app_colour_code(stdout, APP_BOLD), what, app_colour_code(stdout, APP_PLAIN));
  for (uint32_t k = 0; k < c->count; k++) printf(" %5u thread%s", c->threads[k], c->threads[k] == 1 ? " " : "s");
  printf("\n");
}

static void print_peaks(const td_roofline *r, const columns *c) {
  print_head("GFLOP/s", c);
  for (uint32_t i = 0; i < r->peak_count; i++) {
    const td_peak *p = &r->peaks[i];
    if (p->threads == 1) printf("%-12s %-5s", p->isa, td_dtype_name(p->dtype));
    printf(" %13.1f", p->per_second * 1e-9);
    if (i + 1 == r->peak_count || r->peaks[i + 1].threads == 1) printf("\n");
  }
}

static void print_bandwidths(const td_roofline *r, const columns *c, bool copies) {
  char size[24];
  print_head(copies ? "GB/s, copy" : "GB/s, read", c);
  for (uint32_t i = 0; i < r->bandwidth_count; i++) {
    const td_bandwidth *b = &r->bandwidths[i];
    if (b->threads == 1) printf("%-5s %-12s", app_level_name(b->level), app_bytes_text(size, sizeof size, b->bytes));
    printf(" %13.1f", (copies ? b->copy : b->read) * 1e-9);
    if (i + 1 == r->bandwidth_count || r->bandwidths[i + 1].threads == 1) printf("\n");
  }
}

td_status cli_run_roofline(cli_args *args, td_error *err) {
  td_roofline roofline;
  int64_t threads = 0;
  TRY(cli_int(args, "threads", 1, 4096, &threads, err));
  TRY(app_roofline_read((uint32_t)threads, !cli_flag(args, "cached"), &roofline, err));
  if (cli_flag(args, "json")) return app_print_json(app_roofline_json(&roofline), APP_JSON, err);
  const columns c = columns_of(&roofline);
  printf("%s\n", roofline.cpu[0] ? roofline.cpu : "unknown CPU");
  print_peaks(&roofline, &c);
  print_bandwidths(&roofline, &c, false);
  print_bandwidths(&roofline, &c, true);
  return TD_OK;
}
