/* changing_sizes.c -- calls of one session with sizes that change: what the first call with each costs, what the next,
 * and what memory the process has. Ends with 1 where memory grows once all sizes were seen, or where anything is
 * compiled after loading. Built and run by changing_sizes.sh.
 *
 * usage: changing_sizes MODEL CACHE SIZES INPUT=DIMS...   SIZES 17,1,128; N in DIMS is the size: input_0=1xN */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <treadle/treadle.h>

enum { MOST = 64, ROUNDS = 3, SLACK_KIB = 2048 };

static td_error err;

static void check(td_status status) {
  if (status == TD_OK) return;
  fprintf(stderr, "%s: %s\n", err.name, err.text);
  exit(2);
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Memory of the process that is no file's. */
static long anonymous_kib(void) {
  char line[256];
  long kib = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f)) sscanf(line, "RssAnon: %ld", &kib);
  if (f) fclose(f);
  return kib;
}

static long long changed_ns(const char *folder) {
  struct stat s;
  if (stat(folder, &s) != 0) return 0;
  return 1000000000LL * s.st_mtim.tv_sec + s.st_mtim.tv_nsec;
}

/* "input_0=1xN" with `size` for N, into memory that is large enough. */
static void set_input(const td_model *model, td_session *session, const char *text, long size, void *memory) {
  char name[128];
  size_t index;
  td_value_info info = {.size = sizeof info};
  const size_t length = strcspn(text, "=");
  snprintf(name, sizeof name, "%.*s", (int)length, text);
  check(td_model_find_input(model, name, &index, &err));
  check(td_model_input(model, index, &info, &err));
  td_tensor t = {.dtype = info.dtype, .data = memory};
  for (const char *at = text + length + 1; *at && t.rank < TD_MAX_RANK; at += strcspn(at, "x"), at += *at == 'x')
    t.dims[t.rank++] = *at == 'N' ? size : atol(at);
  check(td_session_set_input(session, index, &t, &err));
}

int main(int count, char **words) {
  long sizes[MOST], largest = 0;
  int size_count = 0;
  double first[MOST], next[MOST] = {0};
  if (count < 5) return fprintf(stderr, "usage: changing_sizes MODEL CACHE SIZES INPUT=DIMS...\n"), 2;
  for (char *at = words[3]; at && *at && size_count < MOST; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    sizes[size_count] = atol(at);
    if (sizes[size_count] > largest) largest = sizes[size_count];
    size_count++;
  }
  const td_load_options options = {.size = sizeof options, .cc = "/usr/bin/cc", .cache = words[2]};
  const td_session_options one = {.size = sizeof one, .threads = 1};
  td_model *model;
  td_session *session;
  check(td_model_load(words[1], &options, &model, &err));
  check(td_session_new(model, &one, &session, &err));
  void *memory = calloc(64, 1 << 20); /* zeros: indices and floats alike */
  const long long compiled = changed_ns(words[2]);
  long seen = 0;
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < size_count; i++) {
      for (int k = 4; k < count; k++) set_input(model, session, words[k], sizes[i], memory);
      const double before = now_ms();
      check(td_session_run(session, &err));
      const double ms = now_ms() - before;
      if (round == 0) first[i] = ms;
      if (round == 1 || (round > 1 && ms < next[i])) next[i] = ms;
      if (round == 0) printf("size %5ld: anonymous %8.1f MiB\n", sizes[i], (double)anonymous_kib() / 1024);
      if (round == 0 && i == size_count - 1) seen = anonymous_kib();
    }
  for (int i = 0; i < size_count; i++)
    printf("size %5ld: first call %9.3f ms, then %9.3f ms\n", sizes[i], first[i], next[i]);
  const long grown = anonymous_kib() - seen;
  const int compiles = changed_ns(words[2]) != compiled;
  printf("%d sizes, %d rounds: anonymous memory grew by %ld KiB after the first round; %s compiled after loading\n",
         size_count, ROUNDS, grown, compiles ? "something was" : "nothing was");
  td_session_free(session);
  td_model_free(model);
  free(memory);
  return grown > SLACK_KIB || compiles;
}
