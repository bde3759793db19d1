/* roofline.c -- the roofline as JSON, and the file in the user's cache folder that keeps it:
 * $XDG_CACHE_HOME/treadle/roofline-KEY.json, KEY a hash of what the figures depend on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/kept.h"
#include "common/print.h"
#include "common/roofline.h"
#include "sys/sys.h"

static const char *const level_names[] = {"L1", "L2", "L3", "DRAM"};

const char *app_level_name(td_memory_level level) { return level_names[level]; }

json_t *app_roofline_json(const td_roofline *r) {
  json_t *root = json_object(), *peaks = json_array(), *bandwidths = json_array();
  for (uint32_t i = 0; i < r->peak_count; i++) {
    const td_peak *p = &r->peaks[i];
    json_t *row = json_object();
    app_json_set(row, "isa", app_json_text(p->isa));
    app_json_set(row, "dtype", app_json_text(td_dtype_name(p->dtype)));
    app_json_set(row, "threads", json_integer(p->threads));
    app_json_set(row, "gflops", app_json_real(p->per_second * 1e-9));
    app_json_set(peaks, NULL, row);
  }
  for (uint32_t i = 0; i < r->bandwidth_count; i++) {
    const td_bandwidth *b = &r->bandwidths[i];
    json_t *row = json_object();
    app_json_set(row, "level", app_json_text(level_names[b->level]));
    app_json_set(row, "threads", json_integer(b->threads));
    app_json_set(row, "bytes", json_integer((json_int_t)b->bytes));
    app_json_set(row, "read_gb_s", app_json_real(b->read * 1e-9));
    app_json_set(row, "copy_gb_s", app_json_real(b->copy * 1e-9));
    app_json_set(bandwidths, NULL, row);
  }
  app_json_set(root, "cpu", app_json_text(r->cpu));
  app_json_set(root, "peaks", peaks);
  app_json_set(root, "bandwidths", bandwidths);
  return root;
}

/* ---- reading back ---- */

static double real_at(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

static bool read_peak(const json_t *row, td_peak *p) {
  const char *isa = json_string_value(json_object_get(row, "isa"));
  const char *dtype = json_string_value(json_object_get(row, "dtype"));
  if (!isa || !dtype || strlen(isa) >= sizeof p->isa) return false;
  *p = (td_peak){.dtype = base_dtype_from_name(base_str_of(dtype)),
                 .threads = (uint32_t)real_at(row, "threads"),
                 .per_second = real_at(row, "gflops") * 1e9};
  strcpy(p->isa, isa);
  return p->dtype != TD_INVALID && p->per_second > 0;
}

static bool read_bandwidth(const json_t *row, td_bandwidth *b) {
  const char *name = json_string_value(json_object_get(row, "level"));
  uint32_t level = 0;
  while (name && level <= TD_DRAM && strcmp(level_names[level], name) != 0) level++;
  if (!name || level > TD_DRAM) return false;
  *b = (td_bandwidth){.level = (td_memory_level)level,
                      .threads = (uint32_t)real_at(row, "threads"),
                      .bytes = (uint64_t)real_at(row, "bytes"),
                      .read = real_at(row, "read_gb_s") * 1e9,
                      .copy = real_at(row, "copy_gb_s") * 1e9};
  return b->read > 0 && b->copy > 0;
}

/* False: not what app_roofline_json wrote. */
static bool from_json(const json_t *root, td_roofline *r) {
  const json_t *peaks = json_object_get(root, "peaks"), *bandwidths = json_object_get(root, "bandwidths");
  const char *cpu = json_string_value(json_object_get(root, "cpu"));
  bool good = cpu && strlen(cpu) < sizeof r->cpu && json_array_size(peaks) <= TD_ROOFLINE_ROWS &&
              json_array_size(bandwidths) <= TD_ROOFLINE_ROWS && json_array_size(peaks) > 0;
  if (!good) return false;
  *r = (td_roofline){.size = sizeof *r};
  strcpy(r->cpu, cpu);
  for (size_t i = 0; good && i < json_array_size(peaks); i++)
    good = read_peak(json_array_get(peaks, i), &r->peaks[r->peak_count++]);
  for (size_t i = 0; good && i < json_array_size(bandwidths); i++)
    good = read_bandwidth(json_array_get(bandwidths, i), &r->bandwidths[r->bandwidth_count++]);
  return good;
}

/* ---- the file ---- */

/* False: the user has no cache folder. */
static bool find_place(uint32_t threads, app_kept *p) {
  sys_machine machine;
  sys_machine_read(&machine);
  snprintf(p->key, sizeof p->key, "%s; isa %x; %u threads; peaks by type; treadle %s", machine.cpu_name, machine.isa,
           threads ? threads : machine.threads, td_version());
  return app_kept_place(p, "roofline", "json");
}

static bool load(const app_kept *p, td_roofline *r) {
  json_t *root = json_load_file(p->path, 0, NULL);
  const char *key = json_string_value(json_object_get(root, "key"));
  bool good = key && strcmp(key, p->key) == 0 && from_json(root, r);
  json_decref(root);
  return good;
}

/* Written beside and renamed: a reader sees the whole file or none. `settled`: a second measurement has changed
 * nothing. */
static void save(app_kept *p, const td_roofline *r, bool settled) {
  char fresh[sizeof p->path + 8];
  json_t *root = app_roofline_json(r);
  app_json_set(root, "key", app_json_text(p->key));
  app_json_set(root, "settled", json_boolean(settled));
  app_make_folders(p->folder);
  snprintf(fresh, sizeof fresh, "%s.new", p->path);
  bool written = json_dump_file(root, fresh, JSON_INDENT(1)) == 0 && rename(fresh, p->path) == 0;
  if (!written) app_note("%s: cannot keep the roofline: %s", p->path, strerror(errno));
  json_decref(root);
}

static bool is_settled(const app_kept *p) {
  json_t *root = json_load_file(p->path, 0, NULL);
  const bool settled = json_is_true(json_object_get(root, "settled"));
  json_decref(root);
  return settled;
}

/* ---- measuring ---- */

static td_status measure(uint32_t threads, td_roofline *r, td_error *err) {
  if (app_is_terminal(stderr)) fprintf(stderr, "measuring the roofline of this machine ...");
  const td_roofline_options options = {.size = sizeof options, .threads = threads};
  *r = (td_roofline){.size = sizeof *r};
  td_status status = td_roofline_measure(&options, r, err);
  if (app_is_terminal(stderr)) fprintf(stderr, "\r\033[K");
  return status;
}

static bool raise_to(double *kept, double fresh) {
  const bool raised = fresh > 1.02 * *kept; /* less is noise */
  if (fresh > *kept) *kept = fresh;
  return raised;
}

/* Rows of one machine stand in one order. */
static bool keep_larger(td_roofline *kept, const td_roofline *fresh) {
  bool raised = kept->peak_count != fresh->peak_count || kept->bandwidth_count != fresh->bandwidth_count;
  if (raised) *kept = *fresh;
  for (uint32_t i = 0; i < kept->peak_count; i++)
    raised |= raise_to(&kept->peaks[i].per_second, fresh->peaks[i].per_second);
  for (uint32_t i = 0; i < kept->bandwidth_count; i++) {
    raised |= raise_to(&kept->bandwidths[i].read, fresh->bandwidths[i].read);
    raised |= raise_to(&kept->bandwidths[i].copy, fresh->bandwidths[i].copy);
  }
  return raised;
}

td_status app_roofline_again(uint32_t threads, td_roofline *r, bool *raised, td_error *err) {
  app_kept p;
  td_roofline fresh;
  *raised = false;
  const bool placed = find_place(threads, &p);
  if (placed && is_settled(&p)) return TD_OK;
  TRY(measure(threads, &fresh, err));
  *raised = keep_larger(r, &fresh);
  if (placed) save(&p, r, !*raised);
  if (*raised) app_note("the roofline was measured on a busy machine, and is now measured again");
  return TD_OK;
}

/* Do more threads reach less than fewer? */
static bool falls(const td_roofline *r) {
  static const double least = 0.95; /* of what fewer do */
  bool falls = false;
  for (uint32_t i = 1; i < r->peak_count; i++) {
    const td_peak *few = &r->peaks[i - 1], *more = &r->peaks[i];
    falls |= more->threads > few->threads && more->per_second < least * few->per_second;
  }
  for (uint32_t i = 1; i < r->bandwidth_count; i++) {
    const td_bandwidth *few = &r->bandwidths[i - 1], *more = &r->bandwidths[i];
    falls |= more->threads > few->threads && (more->read < least * few->read || more->copy < least * few->copy);
  }
  return falls;
}

td_status app_roofline_read(uint32_t threads, bool fresh, td_roofline *roofline, td_error *err) {
  app_kept p;
  bool raised, placed = find_place(threads, &p);
  if (placed && !fresh && load(&p, roofline))
    return falls(roofline) ? app_roofline_again(threads, roofline, &raised, err) : TD_OK;
  TRY(measure(threads, roofline, err));
  if (placed) save(&p, roofline, false);
  return TD_OK;
}
