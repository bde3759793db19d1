/* report.c -- a sweep as a table with bars, as JSON, and as a picture. */
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "sweep.h"

enum { BAR = 32 };

uint32_t sweep_fastest(const sweep_table *t) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < t->count; i++)
    if (t->rows[i].p50_ms < t->rows[best].p50_ms) best = i;
  return best;
}

uint32_t sweep_broadest(const sweep_table *t) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < t->count; i++)
    if (t->rows[i].per_s > t->rows[best].per_s) best = i;
  return best;
}

void sweep_print(const sweep_table *t) {
  const double most = t->rows[sweep_broadest(t)].per_s;
  const bool named = strcmp(t->kind, "batch") == 0 || strcmp(t->kind, "streams") == 0; /* others have a column anyway */
  if (named) printf("%7s ", t->kind);
  printf("%9s %8s %10s %10s %11s %11s %6s\n", "instances", "threads", "p50 ms", "p99 ms", "per second", "memory MiB",
         "scales");
  for (uint32_t i = 0; i < t->count; i++) {
    const sweep_row *r = &t->rows[i];
    if (named) printf("%7u ", r->value);
    printf("%9u %8u %10.4g %10.4g %11.4g %11.1f ", r->instances, r->threads, r->p50_ms, r->p99_ms, r->per_s,
           r->anon_kib / 1024);
    if (r->efficiency > 0) printf("%5.1f%%  ", 100 * r->efficiency);
    else printf("%6s  ", "-");
    for (int k = 0; k < BAR && most > 0; k++) putchar(k < r->per_s / most * BAR ? '#' : ' ');
    printf("\n");
  }
  const uint32_t fast = sweep_fastest(t), broad = sweep_broadest(t);
  printf("best latency:    %s %u, %.4g ms: %s\n", t->kind, t->rows[fast].value, t->rows[fast].p50_ms,
         t->commands[fast]);
  printf("best throughput: %s %u, %.4g per second: %s\n", t->kind, t->rows[broad].value, t->rows[broad].per_s,
         t->commands[broad]);
}

static json_t *row_json(const sweep_table *t, uint32_t i) {
  const sweep_row *r = &t->rows[i];
  json_t *row =
      json_pack("{s:i,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:s}", t->kind, r->value, "instances", r->instances, "threads",
                r->threads, "p50_ms", r->p50_ms, "best_p50_ms", r->best_p50_ms, "worst_p50_ms", r->worst_p50_ms,
                "p99_ms", r->p99_ms, "per_s", r->per_s, "anon_kib", r->anon_kib, "command", t->commands[i]);
  if (row) app_json_set(row, "instances", json_integer(r->instances));
  if (row) app_json_set(row, "efficiency", r->efficiency > 0 ? json_real(r->efficiency) : json_null());
  return row;
}

td_status sweep_print_json(const sweep_table *t, td_error *err) {
  json_t *root = json_object(), *rows = json_array();
  for (uint32_t i = 0; i < t->count; i++) app_json_set(rows, NULL, row_json(t, i));
  app_json_set(root, "sweep", app_json_text(t->kind));
  app_json_set(root, "rows", rows);
  app_json_set(root, "best_latency", row_json(t, sweep_fastest(t)));
  app_json_set(root, "best_throughput", row_json(t, sweep_broadest(t)));
  return app_print_json(root, JSON_INDENT(1), err);
}

/* ---- SVG ---- */

enum { WIDTH = 640, HEIGHT = 320, LEFT = 60, RIGHT = 580, TOP = 40, BOTTOM = 270 };

/* A line through `values`, 0 at the bottom and the largest at the top, with a label at each point. */
static void draw(FILE *file, const sweep_table *t, double (*value)(const sweep_row *), const char *colour) {
  double most = 0;
  for (uint32_t i = 0; i < t->count; i++)
    if (value(&t->rows[i]) > most) most = value(&t->rows[i]);
  const double step = t->count > 1 ? (double)(RIGHT - LEFT) / (t->count - 1) : 0;
  fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
  for (uint32_t i = 0; i < t->count; i++)
    fprintf(file, "%.1f,%.1f ", LEFT + i * step, BOTTOM - (most > 0 ? value(&t->rows[i]) / most : 0) * (BOTTOM - TOP));
  fprintf(file, "\"/>\n");
  for (uint32_t i = 0; i < t->count; i++) {
    const double x = LEFT + i * step, y = BOTTOM - (most > 0 ? value(&t->rows[i]) / most : 0) * (BOTTOM - TOP);
    fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>", x, y, colour);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\" text-anchor=\"middle\">%.4g</text>\n", x, y - 7, colour,
            value(&t->rows[i]));
  }
}

static double per_second(const sweep_row *r) { return r->per_s; }
static double median(const sweep_row *r) { return r->p50_ms; }

td_status sweep_write_svg(const sweep_table *t, const char *path, td_error *err) {
  FILE *file = fopen(path, "we");
  if (!file) return base_fail(err, TD_BAD_ARGUMENT, path, -1, "the file cannot be written");
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
          "font-size=\"11\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n"
          "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#888\"/>\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, BOTTOM);
  const double step = t->count > 1 ? (double)(RIGHT - LEFT) / (t->count - 1) : 0;
  for (uint32_t i = 0; i < t->count; i++)
    fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%u</text>\n", LEFT + i * step, BOTTOM + 16,
            t->rows[i].value);
  fprintf(
      file,
      "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n"
      "<text x=\"%d\" y=\"18\" fill=\"#1a6\">per second</text><text x=\"%d\" y=\"18\" fill=\"#c40\">p50 ms</text>\n",
      (LEFT + RIGHT) / 2, BOTTOM + 36, t->kind, LEFT, LEFT + 90);
  draw(file, t, per_second, "#1a6");
  draw(file, t, median, "#c40");
  fprintf(file, "</svg>\n");
  const bool wrote = !ferror(file);
  return fclose(file) == 0 && wrote ? TD_OK : base_fail(err, TD_NO_RESOURCE, path, -1, "the file cannot be written");
}
