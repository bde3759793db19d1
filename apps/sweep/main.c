/* main.c -- `treadle-sweep`: takes the words of `treadle bench`, measures over one setting, and says which is best. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sweep.h"

typedef struct sweep {
  const char *kind, *values, *svg, *instances, *threads;
  bool json;
  char **rest; /* of the words, for `treadle bench`, its path first */
  int rest_count;
  sys_topology machine;
  base_arena *arena;
  sweep_table table;
  td_error *err;
} sweep;

/* ---- words ---- */

/* The value of "--name VALUE" or "--name=VALUE" at words[*i], which is left at the last word taken. NULL: another. */
static const char *take(char **words, int count, int *i, const char *name) {
  const char *word = words[*i];
  const size_t length = strlen(name);
  if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, length) != 0) return NULL;
  if (word[2 + length] == '=') return word + 3 + length;
  return word[2 + length] == 0 && *i + 1 < count ? words[++*i] : NULL;
}

static td_status read_words(sweep *s, int count, char **words) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
  char *slash = length > 0 ? memrchr(path, '/', (size_t)length) : NULL;
  s->rest = base_new(s->arena, char *, (size_t)count + 16);
  if (!s->rest || !slash) return base_no_memory(s->err, "words");
  strcpy(slash + 1, "treadle");
  static char bench[] = "bench";
  s->rest[s->rest_count++] = base_arena_text(s->arena, path);
  s->rest[s->rest_count++] = bench;
  struct {
    const char *name, **value;
  } const taken[] = {{"sweep", &s->kind}, {"values", &s->values}, {"svg", &s->svg}, {"instances", &s->instances}};
  for (int i = 0; i < count; i++) {
    const char *value = NULL;
    if (strcmp(words[i], "--json") == 0) {
      s->json = true;
      continue;
    }
    for (size_t k = 0; k < 4 && !value; k++)
      if ((value = take(words, count, &i, taken[k].name))) *taken[k].value = value;
    if (value) continue;
    const int before = i;
    value = take(words, count, &i, "threads");
    if (value) s->threads = value;
    else s->rest[s->rest_count++] = words[before];
  }
  return s->rest[0] ? TD_OK : base_no_memory(s->err, "words");
}

/* The command of one setting; `quiet`: for a person to use. NULL: out of memory. */
static char **with(const sweep *s, const char *option, uint32_t value, uint32_t threads) {
  static char json[] = "--json", option_threads[] = "--threads";
  char **argv = base_new(s->arena, char *, (size_t)s->rest_count + 8);
  char *number = base_arena_format(s->arena, "%u", value), *count = base_arena_format(s->arena, "%u", threads);
  int at = 0;
  if (!argv || !number || !count) return NULL;
  for (; at < s->rest_count; at++) argv[at] = s->rest[at];
  if (option) argv[at++] = base_arena_text(s->arena, option), argv[at++] = number;
  if (threads) argv[at++] = option_threads, argv[at++] = count;
  argv[at] = json;
  return argv;
}

static const char *command_text(const sweep *s, const char *before, char **argv) {
  base_text text = {.allocator = &base_libc_allocator};
  base_text_print(&text, "%streadle", before);
  for (char **word = argv + 1; *word && strcmp(*word, "--json") != 0; word++)
    base_text_print(&text, strpbrk(*word, " '\"$*?[") ? " '%s'" : " %s", *word);
  const char *copy = text.failed ? "" : base_arena_text(s->arena, text.at);
  base_text_free(&text);
  return copy ? copy : "";
}

/* ---- measuring ---- */

static td_status lay_out(const sweep *s, uint32_t instances, uint32_t each, launch_layout *layout) {
  const launch_request request = {.instances = instances, .cores_each = each, .share = true, .close = true};
  return launch_lay_out(&s->machine, &request, s->arena, layout, s->err);
}

static sweep_row *next_row(sweep *s, uint32_t value, const char *command) {
  s->table.commands[s->table.count] = command;
  s->table.rows[s->table.count].value = value;
  return &s->table.rows[s->table.count++];
}

/* One process with all cores: the setting is an option of `treadle bench`. */
static td_status measure_option(sweep *s, uint32_t value) {
  launch_layout layout;
  const bool threads = strcmp(s->kind, "threads") == 0;
  int64_t asked = 0;
  if (s->threads && !base_str_int(base_str_of(s->threads), &asked)) asked = 0;
  const char *option = strcmp(s->kind, "streams") == 0 ? "--streams" : "--batch";
  char **argv = threads ? with(s, NULL, 0, value) : with(s, option, value, (uint32_t)asked);
  if (!argv) return base_no_memory(s->err, "a command");
  TRY(lay_out(s, 1, 0, &layout));
  sweep_row *row = next_row(s, value, command_text(s, "", argv));
  TRY(sweep_measure(argv, &layout, s->arena, row, s->err));
  if (threads && s->table.rows[0].value == 1) row->efficiency = row->per_s / (value * s->table.rows[0].per_s);
  return TD_OK;
}

/* Processes side by side; where `alone` is not NULL, compared with one that had its cores and no neighbours. */
static td_status measure_instances(sweep *s, uint32_t value, const sweep_row *alone) {
  launch_layout layout;
  TRY(lay_out(s, value, 0, &layout));
  char **argv = with(s, NULL, 0, layout.instances[0].threads);
  if (!argv) return base_no_memory(s->err, "a command");
  const char *before = base_arena_format(s->arena, "treadle launch --ninstances %u%s ", value,
                                         value > s->machine.cores ? " --share-cores" : "");
  if (!before) return base_no_memory(s->err, "a command");
  sweep_row *row = next_row(s, value, command_text(s, before, argv));
  TRY(sweep_measure(argv, &layout, s->arena, row, s->err));
  if (alone) row->efficiency = row->per_s / (value * alone->per_s);
  return TD_OK;
}

/* --instances N: one alone on the cores that it will have, then all. */
static td_status measure_neighbours(sweep *s) {
  int64_t count;
  launch_layout layout;
  if (!base_str_int(base_str_of(s->instances), &count) || count < 1 || count > 1024)
    return base_fail(s->err, TD_BAD_ARGUMENT, NULL, -1, "--instances '%s': 1 to 1024 are allowed", s->instances);
  TRY(lay_out(s, (uint32_t)count, 0, &layout));
  layout.count = 1;
  char **argv = with(s, NULL, 0, layout.instances[0].threads);
  if (!argv) return base_no_memory(s->err, "a command");
  sweep_row *alone = next_row(s, 1, command_text(s, "", argv));
  TRY(sweep_measure(argv, &layout, s->arena, alone, s->err));
  return measure_instances(s, (uint32_t)count, alone);
}

static td_status choose_values(const sweep *s, sys_cpu_set *values) {
  const uint32_t cpus = s->machine.allowed;
  const uint32_t most = strcmp(s->kind, "batch") == 0 ? 32 : cpus;
  if (s->values) {
    if (sys_set_parse(base_str_of(s->values), values) && !sys_set_has(values, 0) && sys_set_count(values) <= 64)
      return TD_OK;
    return base_fail(s->err, TD_BAD_ARGUMENT, NULL, -1, "--values '%s': a list such as 1-4,8, of at most 64 and no 0",
                     s->values);
  }
  for (uint32_t i = 1; i < most; i *= 2) sys_set_add(values, i);
  sys_set_add(values, most);
  return TD_OK;
}

static td_status measure_all(sweep *s) {
  sys_cpu_set values = {0};
  s->table = (sweep_table){.rows = base_new(s->arena, sweep_row, 72), .commands = base_new(s->arena, const char *, 72)};
  if (!s->table.rows || !s->table.commands) return base_no_memory(s->err, "a table");
  if (!s->kind) {
    s->table.kind = s->kind = "instances";
    return measure_neighbours(s);
  }
  s->table.kind = s->kind;
  TRY(choose_values(s, &values));
  for (uint32_t i = 0; i < SYS_MOST_CPUS; i++) {
    if (!sys_set_has(&values, i)) continue;
    if (isatty(2)) fprintf(stderr, "\r\033[K%s %u", s->kind, i);
    TRY(strcmp(s->kind, "instances") == 0 ? measure_instances(s, i, NULL) : measure_option(s, i));
  }
  if (isatty(2)) fprintf(stderr, "\r\033[K");
  return TD_OK;
}

static td_status run(sweep *s, int count, char **words) {
  TRY(read_words(s, count, words));
  TRY(sys_topology_read("", s->arena, &s->machine, s->err));
  TRY(measure_all(s));
  if (s->svg) TRY(sweep_write_svg(&s->table, s->svg, s->err));
  if (s->json) return sweep_print_json(&s->table, s->err);
  sweep_print(&s->table);
  return TD_OK;
}

int main(int count, char **words) {
  td_error err = {.offset = -1};
  sweep s = {.arena = base_arena_new(&base_libc_allocator), .err = &err};
  if (!s.arena) return TD_NO_RESOURCE;
  td_status status = run(&s, count - 1, words + 1);
  if (status != TD_OK) fprintf(stderr, "treadle: bench: %s%s%s\n", err.name, *err.name ? ": " : "", err.text);
  if (status == TD_OK && (fflush(stdout) != 0 || ferror(stdout))) status = TD_NO_RESOURCE;
  base_arena_free(s.arena);
  return (int)status;
}
