/* tuning.c -- the numbers of tuning.def by CPU. */
#include "kernels/tuning.h"

#include <string.h>

static const kern_tuning defaults = {
#define TUNING(name, value, threads, candidates, what) value,
#include "kernels/tuning.def"
#undef TUNING
};

static const kern_tuning_row rows[] = {
#define TUNING(name, value, threads, candidates, what) {#name, candidates, what, offsetof(kern_tuning, name), threads},
#include "kernels/tuning.def"
#undef TUNING
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

const kern_tuning_row *kern_tuning_rows(uint32_t *count) {
  *count = ROW_COUNT;
  return rows;
}

/* What was measured, by family; model 0: all others of it. Virtual machines may say any model. Of AMD's family 26
 * (Zen 5) the defaults are best. */
static const struct {
  const char *vendor;
  uint32_t family, model;
  const char *numbers;
} cpus[] = {
    {"GenuineIntel", 6, 0, "product_panels=3,packed_groups=16,conv_panels=3,winograd_panels=3,tall_rows=8,b_lines=8"},
    {"AuthenticAMD", 25, 0, "tile_steps=1"}};

/* The next of `text`'s words, which end with `end`; empty behind the last. */
static base_str next_word(const char **text, char end) {
  const char *from = *text, *stop = strchr(from, end);
  const base_str word = {from, stop ? (size_t)(stop - from) : strlen(from)};
  *text = from + word.length + (stop != NULL);
  return word;
}

static bool is_candidate(const kern_tuning_row *row, base_str value) {
  for (const char *list = row->candidates; *list;) {
    const base_str one = next_word(&list, ' ');
    if (one.length == value.length && memcmp(one.at, value.at, one.length) == 0) return true;
  }
  return false;
}

static td_status set_one(kern_tuning *t, base_str word, td_error *err) {
  const char *equals = memchr(word.at, '=', word.length);
  const size_t name = equals ? (size_t)(equals - word.at) : word.length;
  for (uint32_t i = 0; i < ROW_COUNT; i++) {
    if (strlen(rows[i].name) != name || memcmp(rows[i].name, word.at, name) != 0) continue;
    const base_str value = equals ? (base_str){equals + 1, word.length - name - 1} : (base_str){"", 0};
    int64_t number;
    if (!is_candidate(&rows[i], value) || !base_str_int(value, &number))
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "tuning: %s is one of %s, not '%.*s'", rows[i].name,
                       rows[i].candidates, (int)base_min_i64((int64_t)value.length, 32), value.at);
    memcpy((char *)t + rows[i].at, &number, sizeof number);
    return TD_OK;
  }
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "tuning: there is no number called '%.*s'",
                   (int)base_min_i64((int64_t)name, 32), word.at);
}

td_status kern_tuning_set(kern_tuning *t, const char *text, td_error *err) {
  while (*text) TRY(set_one(t, next_word(&text, ','), err));
  return TD_OK;
}

kern_tuning kern_tuning_for(const char *vendor, uint32_t family, uint32_t model) {
  kern_tuning t = defaults;
  td_error unused;
  for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++)
    if (strcmp(cpus[i].vendor, vendor) == 0 && cpus[i].family == family && (!cpus[i].model || cpus[i].model == model)) {
      kern_tuning_set(&t, cpus[i].numbers, &unused);
      break;
    }
  return t;
}

const kern_tuning *kern_tuning_of(const base_call *call) { return call->tuning ? call->tuning : &defaults; }

base_speed kern_speed(const kern_tuning *t) {
  base_speed speed = base_speed_default;
  if (!t) return speed;
  speed.far_per_ns = (double)t->far_per_ns;
  speed.hand_over_ns = (double)t->hand_over_ns;
  speed.thread_ns = (double)t->thread_ns;
  return speed;
}
