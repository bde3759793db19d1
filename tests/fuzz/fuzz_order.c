/* What the process beside the server starts: a byte of which programs there are and which is asked for, then words.
 * Those that are granted are, byte by byte, what is written here from the few places where they may differ; no other
 * are. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"

#define CACHE "/tmp/cache"
#define FOLDERS "/tmp"
#define WORD(text) text "\1" /* stands for the 0 behind a word, so that words are one string */
#define OPTION(text) WORD(text)
static const char always[] =
#include "base/compiler.def"
    ;
#undef OPTION
#define LEVEL(name, architecture, needs, lanes, rows, options) options,
#define PART(...)
static const char *const levels[] = {
#include "base/levels.def"
};
#undef LEVEL
#undef PART
enum { DIGITS = 32, LETTERS = 6, MOST = 1 << 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The words as a string, with \1 behind each; false: one has a \1 itself, or they are too many bytes to be right. */
static bool join(char out[MOST], const char *const *words, size_t count) {
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    const size_t length = strlen(words[i]);
    if (strchr(words[i], '\1') || length + 2 > MOST - at) return false;
    memcpy(out + at, words[i], length);
    out[at + length] = '\1';
    at += length + 1;
  }
  out[at] = 0;
  return true;
}

static bool is_of(const char *text, size_t length, const char *set) { return length && strspn(text, set) >= length; }

/* The two numbers of the file that the compiler writes, from behind the digits of its name; what does not read so is no
 * name. */
static bool read_numbers(const char *made, char first[MOST], char second[MOST]) {
  return strlen(made) < MOST && sscanf(made, ".%[0-9].%[0-9a-f].tmp", first, second) == 2;
}

static bool is_compilation(const char *joined, const char *const *words, size_t count) {
  static char wanted[4 * MOST], first[MOST], second[MOST], blanks[MOST];
  if (count < 2) return false;
  const char *made = words[count - 2];
  const size_t folder = strlen(CACHE "/");
  if (strlen(made) < folder + DIGITS || !is_of(made + folder, DIGITS, "0123456789abcdef")) return false;
  if (!read_numbers(made + folder + DIGITS, first, second)) return false;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    snprintf(blanks, sizeof blanks, "%s%s", levels[i], *levels[i] ? "\1" : "");
    for (char *at = blanks; *at; at++)
      if (*at == ' ') *at = '\1';
    snprintf(wanted, sizeof wanted, "%s%s" WORD("-o") WORD(CACHE "/%.*s.%s.%s.tmp") WORD(CACHE "/%.*s.c"), always,
             blanks, DIGITS, made + folder, first, second, DIGITS, made + folder);
    if (strcmp(joined, wanted) == 0) return true;
  }
  return false;
}

static bool is_worker(const char *joined, const char *const *words, size_t count) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  static char wanted[4 * MOST];
  const size_t folder = strlen(FOLDERS "/treadle-serve-");
  if (count != 2 || !*words[1] || strlen(words[0]) < folder + LETTERS) return false;
  if (!is_of(words[0] + folder, LETTERS, letters)) return false;
  snprintf(wanted, sizeof wanted, WORD(FOLDERS "/treadle-serve-%.*s/shim/worker.py") WORD("%s"), LETTERS,
           words[0] + folder, words[1]);
  return strcmp(joined, wanted) == 0;
}

static bool may_be(const spawner_plan *plan, uint32_t program, const char *const *words, size_t count) {
  static char joined[MOST];
  if (!join(joined, words, count)) return false;
  if (program == SPAWNER_COMPILER) return plan->compiler && plan->cache && is_compilation(joined, words, count);
  return program == SPAWNER_WORKER && plan->python && plan->folders && is_worker(joined, words, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size || size > MOST / 2) return 0;
  const spawner_plan plan = {.compiler = data[0] & 1 ? NULL : "/bin/cc",
                             .cache = data[0] & 2 ? NULL : CACHE,
                             .python = data[0] & 4 ? NULL : "/bin/python3",
                             .folders = data[0] & 8 ? NULL : FOLDERS};
  const uint32_t program = data[0] >> 4;
  const char *words[ORDER_WORDS];
  size_t count;
  char *text = malloc(size); /* of its own, so that a byte beyond it is found */
  if (!text) abort();
  memcpy(text, data + 1, size - 1);
  if (order_split(text, size - 1, words, &count)) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
      assert(words[i] == text + bytes);
      bytes += strlen(words[i]) + 1;
    }
    assert(bytes == size - 1 && count <= ORDER_WORDS);
    const bool has_mark = memchr(text, '\1', size - 1) != NULL;
    const bool granted = order_is_allowed(&plan, words, count, program);
    if (!has_mark || program != SPAWNER_WORKER) assert(granted == may_be(&plan, program, words, count));
  }
  free(text);
  return 0;
}
