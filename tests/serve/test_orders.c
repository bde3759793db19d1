/* test_orders.c -- what the process beside the server takes for an order: the words that the code generator writes and
 * those of a worker, and nothing else, whatever is said over the socket. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "codegen/chains.h"
#include "order.h"

#define CACHE "/tmp/cache"
#define DIGITS "0123456789abcdef0123456789abcdef"
#define FOLDER "/tmp/treadle-serve-aB3xYz"
#define SCRIPT "/tmp/treadle-serve-aB3xYz/shim/worker.py"
#define ALWAYS                                                                                                   \
  "-x", "c", "-std=gnu11", "-O2", "-w", "-fPIC", "-shared", "-nostdlib", "-ffp-contract=off", "-fno-math-errno", \
      "-fno-trapping-math"
#define MADE "/tmp/cache/0123456789abcdef0123456789abcdef.12.7f00a.tmp"
#define SOURCE "/tmp/cache/0123456789abcdef0123456789abcdef.c"
#define FILES "-o", MADE, SOURCE

static const spawner_plan plan = {
    .compiler = "/bin/echo", .cache = CACHE, .python = "/bin/echo", .folders = "/tmp", .python_memory = 1 << 30};

typedef struct words {
  const char *at[40]; /* NULL behind the last */
} words;

static size_t count_of(const words *w) {
  size_t count = 0;
  while (w->at[count]) count++;
  return count;
}

static void expect(const spawner_plan *with, spawner_program program, const words *w, bool granted) {
  if (order_is_allowed(with, w->at, count_of(w), program) == granted) return;
  for (size_t i = 0; w->at[i]; i++) print_error("%s ", w->at[i]);
  fail_msg("is%s granted", granted ? " not" : "");
}

/* ---- words ---- */

static const words good_compiler = {{ALWAYS, "-mavx2", "-mfma", "-mf16c", FILES}}, plain_compiler = {{ALWAYS, FILES}},
                   good_worker = {{SCRIPT, "net"}};

static void good_words(void **state) {
  (void)state;
  expect(&plan, SPAWNER_COMPILER, &good_compiler, true);
  expect(&plan, SPAWNER_COMPILER, &plain_compiler, true);
  expect(&plan, SPAWNER_WORKER, &good_worker, true);
  expect(&plan, SPAWNER_WORKER, &(words){{SCRIPT, "-c"}}, true); /* a name: it is behind the script */
}

/* Each word left out, said twice, changed, and one put in front of it. */
static void no_other_options(void **state) {
  (void)state;
  static const char *const others[] = {
      "-fplugin=/tmp/x.so", "-B/tmp", "-specs=/tmp/x", "-wrapper", "@/tmp/x", "-", "", "-O2", "-mfma", "c",
      "-mavx2 -mfma"};
  const size_t count = count_of(&good_compiler);
  for (size_t i = 0; i <= count; i++) {
    words w = good_compiler;
    if (i < count) memmove(&w.at[i], &w.at[i + 1], (count - i) * sizeof *w.at);
    if (i < count) expect(&plan, SPAWNER_COMPILER, &w, false);
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
      w = good_compiler;
      if (i < count && strcmp(w.at[i], others[k]) != 0) {
        w.at[i] = others[k];
        expect(&plan, SPAWNER_COMPILER, &w, false);
      }
      w = good_compiler;
      memmove(&w.at[i + 1], &w.at[i], (count - i) * sizeof *w.at);
      w.at[i] = others[k];
      expect(&plan, SPAWNER_COMPILER, &w, false);
    }
  }
  expect(&plan, SPAWNER_COMPILER, &(words){{NULL}}, false);
  expect(&plan, SPAWNER_COMPILER, &(words){{FILES}}, false);
  expect(&plan, SPAWNER_COMPILER, &(words){{ALWAYS, "-mavx512f", FILES}}, false); /* of a level, and not all of it */
  expect(&plan, SPAWNER_COMPILER, &(words){{ALWAYS, "-mavx2 -mfma -mf16c", FILES}}, false);
}

static void no_other_files(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {MADE, CACHE "/1123456789abcdef0123456789abcdef.c"},
      {MADE, CACHE "/" DIGITS ".so"},
      {MADE, CACHE "/" DIGITS ".c.c"},
      {MADE, CACHE "/" DIGITS},
      {MADE, "/tmp/" DIGITS ".c"},
      {MADE, CACHE "/../x.c"},
      {MADE, "-"},
      {CACHE "/" DIGITS ".12.7f00a.tmp.so", SOURCE},
      {CACHE "/" DIGITS ".12..tmp", SOURCE},
      {CACHE "/" DIGITS "..7f00a.tmp", SOURCE},
      {CACHE "/" DIGITS ".1a.7f00a.tmp", SOURCE},
      {CACHE "/" DIGITS ".12.7F.tmp", SOURCE},
      {CACHE "/" DIGITS "0.12.7f.tmp", CACHE "/" DIGITS "0.c"},
      {CACHE "/../cache/" DIGITS ".12.7f.tmp", CACHE "/../cache/" DIGITS ".c"},
      {CACHE "x/" DIGITS ".12.7f.tmp", CACHE "x/" DIGITS ".c"},
      {CACHE "//" DIGITS ".12.7f.tmp", CACHE "//" DIGITS ".c"},
      {"/etc/passwd", SOURCE},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    expect(&plan, SPAWNER_COMPILER, &(words){{ALWAYS, "-o", pairs[i][0], pairs[i][1]}}, false);
}

static void no_other_programs(void **state) {
  (void)state;
  static const words workers[] = {
      {{SCRIPT}},
      {{SCRIPT, ""}},
      {{SCRIPT, "net", "more"}},
      {{"-c", "import os"}},
      {{FOLDER "/model/handler.py", "net"}},
      {{FOLDER "/shim/worker.pyc", "net"}},
      {{FOLDER "/../x/shim/worker.py", "net"}},
      {{FOLDER "x/shim/worker.py", "net"}},
      {{"/tmp/treadle-serve-a.3xYz/shim/worker.py", "net"}},
      {{"/tmp/treadle-serve-aB3xY/shim/worker.py", "net"}},
      {{"/tmp/x/treadle-serve-aB3xYz/shim/worker.py", "net"}},
      {{"/var" SCRIPT, "net"}},
  };
  for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) expect(&plan, SPAWNER_WORKER, &workers[i], false);
  expect(&plan, SPAWNER_COMPILER, &good_worker, false);
  expect(&plan, SPAWNER_WORKER, &good_compiler, false);
  expect(&plan, 2, &good_worker, false);
  expect(&(spawner_plan){.compiler = "cc", .cache = CACHE, .folders = "/tmp"}, SPAWNER_WORKER, &good_worker, false);
  expect(&(spawner_plan){.python = "python3"}, SPAWNER_WORKER, &good_worker, false);
  expect(&(spawner_plan){.compiler = "cc"}, SPAWNER_COMPILER, &good_compiler, false);
  expect(&(spawner_plan){.cache = CACHE}, SPAWNER_COMPILER, &good_compiler, false);
}

/* ---- the code generator ---- */

#define LEVEL(name, architecture, needs, lanes, rows, options) needs,
#define PART(...)
static const uint32_t levels[] = {
#define KERN_VECTOR_BYTES 64
#include "base/levels.def"
};
#undef LEVEL
#undef PART

/* Has a loop compiled for the level by what notes its words and fails. */
static void ask_compiler(const char *cc, const char *cache, uint32_t isa) {
  static const char text[] = "input %0 \"x\": f32[n, 37]\n%1 = aten::exp(%0)\n%2 = aten::neg(%1)\noutput \"y\" %2\n";
  td_error err;
  rig r = {.counting = {.inner = &base_libc_allocator}};
  const compile_setting setting = {
      .backend = compile_find_backend("native"), .isa = isa, .options.cc = cc, .options.cache = cache};
  r.allocator = base_counting_allocator(&r.counting);
  r.arena = base_arena_new(&base_libc_allocator);
  r.graph = parse_graph(r.arena, text, &r.allocator);
  assert_int_equal(compile_graph(r.graph, &setting, &r.allocator, NULL, &r.plan, &err), TD_OK);
  rig_close(&r);
}

/* Words as a script has noted them, a line each. */
static void read_words(const char *path, char *text, size_t size, words *w) {
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  const size_t length = fread(text, 1, size - 1, file);
  size_t count = 0;
  text[length] = 0;
  fclose(file);
  *w = (words){{NULL}};
  for (char *at = strtok(text, "\n"); at && count < 39; at = strtok(NULL, "\n")) w->at[count++] = at;
}

static void what_the_code_generator_writes(void **state) {
  (void)state;
  static const char body[] = "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$0.words\"\nexit 1\n";
  char *cache = chains_cache(), script[64], noted[80], text[4096];
  snprintf(script, sizeof script, "%s/cc", cache);
  snprintf(noted, sizeof noted, "%s.words", script);
  const int fd = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
  assert_true(fd >= 0 && write(fd, body, sizeof body - 1) == sizeof body - 1);
  assert_int_equal(close(fd), 0);
  const spawner_plan own = {.compiler = script, .cache = cache};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    words w;
    unlink(noted);
    ask_compiler(script, cache, levels[i]);
    if (!levels[i] && access(noted, R_OK) != 0) continue; /* without vectors loops are interpreted */
    read_words(noted, text, sizeof text, &w);
    expect(&own, SPAWNER_COMPILER, &w, true);
  }
  chains_remove(cache);
}

/* ---- the socket ---- */

typedef struct talk {
  int fd;
  pid_t pid;
  order order;
} talk;

static void open_talk(talk *t) {
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  t->pid = fork();
  if (t->pid == 0) {
    close(pair[0]);
    spawner_serve(&plan, pair[1]);
  }
  close(pair[1]);
  t->fd = pair[0];
}

static void close_talk(const talk *t) {
  int status = -1;
  close(t->fd);
  assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
  assert_int_equal(status, 0);
}

/* How many bytes the order has. */
static size_t write_order(order *o, uint32_t program, uint32_t threads, const words *w) {
  size_t bytes = 0;
  *o = (order){.program = program, .threads = threads};
  for (size_t i = 0; w->at[i]; i++) bytes += (size_t)sprintf(o->words + bytes, "%s", w->at[i]) + 1;
  return offsetof(order, words) + bytes;
}

/* Says `bytes`, and has the error that is answered; descriptors come with a program alone. */
static int error_of(const talk *t, const void *bytes, size_t count, const int *with, size_t with_count) {
  answer a = {.error = -1};
  int fds[2];
  assert_true(order_put(t->fd, bytes, count, with, with_count));
  assert_int_equal(order_take(t->fd, &a, sizeof a, fds), sizeof a);
  assert_int_equal(a.pid != 0, fds[0] >= 0);
  order_close(fds);
  return a.error;
}

static void bad_orders(void **state) {
  (void)state;
  static talk t;
  static char large[sizeof(order) + 4096];
  const int two[] = {2, 2};
  const size_t head = offsetof(order, words);
  open_talk(&t);
  size_t bytes = write_order(&t.order, SPAWNER_COMPILER, 1, &plain_compiler);
  assert_int_equal(error_of(&t, &t.order, bytes, two, 1), 0);
  assert_int_equal(error_of(&t, &t.order, bytes, NULL, 0), EPERM); /* nowhere to print to */
  assert_int_equal(error_of(&t, &t.order, bytes, two, 2), EPERM);
  assert_int_equal(error_of(&t, &t.order, bytes - 1, two, 1), EPERM); /* a word without its end */
  for (size_t i = 1; i <= head; i++) assert_int_equal(error_of(&t, &t.order, i, two, 1), EPERM);
  assert_int_equal(error_of(&t, large, sizeof large, two, 1), EPERM);
  memcpy(large, &t.order, sizeof t.order);
  assert_int_equal(error_of(&t, large, sizeof large, two, 1), EPERM);      /* which begins well */
  assert_int_equal(error_of(&t, &t.order, sizeof t.order, two, 1), EPERM); /* more words than there may be */
  bytes = write_order(&t.order, SPAWNER_COMPILER, 1, &(words){{ALWAYS, "-fplugin=/tmp/x.so", FILES}});
  assert_int_equal(error_of(&t, &t.order, bytes, two, 1), EPERM);
  bytes = write_order(&t.order, 7, 1, &good_worker);
  assert_int_equal(error_of(&t, &t.order, bytes, two, 1), EPERM);
  bytes = write_order(&t.order, SPAWNER_WORKER, 0, &good_worker);
  assert_int_equal(error_of(&t, &t.order, bytes, two, 1), EPERM);
  bytes = write_order(&t.order, SPAWNER_WORKER, ORDER_THREADS + 1, &good_worker);
  assert_int_equal(error_of(&t, &t.order, bytes, two, 1), EPERM);
  bytes = write_order(&t.order, SPAWNER_WORKER, 1, &good_worker);
  assert_int_equal(error_of(&t, &t.order, bytes, two, 1), 0); /* it still does what it is there for */
  close_talk(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_words),     cmocka_unit_test(no_other_options),
      cmocka_unit_test(no_other_files), cmocka_unit_test(no_other_programs),
      cmocka_unit_test(bad_orders),     cmocka_unit_test(what_the_code_generator_writes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
