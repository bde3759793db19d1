/* test_cache.c -- nothing that happens to the compiler, the cache, its files or the disk changes a result; what cannot
 * be compiled is interpreted, with one warning that says all there is to know. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "codegen/small_model.h"

#define COMPILED "fused_add_mul_relu_0"
#define INTERPRETED "kern_fused"
enum { PROCESSES = 200, NOBODY = 65534 };

/* ---- compilers ---- */

/* A program of the shell in place of a compiler; $src is the C file, $out what it is to make. */
static void write_script(const char *path, const char *body) {
  char text[1024];
  td_error err;
  snprintf(text, sizeof text,
           "#!/bin/sh\nfor a; do [ \"$last\" = -o ] && out=$a; last=$a; src=$a; done\n"
           "cc=%s\n%s\n",
           chains_compiler() ? chains_compiler() : "false", body);
  assert_int_equal(sys_write_file(path, text, strlen(text), &err), TD_OK);
  assert_int_equal(chmod(path, 0700), 0);
}

typedef struct bench {
  char *folder, script[96], cache[96];
} bench;

static void bench_open(bench *b) {
  b->folder = chains_cache();
  snprintf(b->script, sizeof b->script, "%s/cc", b->folder);
  snprintf(b->cache, sizeof b->cache, "%s/made", b->folder);
}

static void broken_compilers(void **state) {
  (void)state;
  static const struct {
    const char *body, *says;
    uint32_t limit_ms;
  } cases[] = {{"exit 1", "status 1", 0},
               {"kill -9 $$", "status 137", 0},
               {"exit 0", "made nothing", 0},
               {"echo nonsense; exit 0", "made nothing", 0},
               {"echo nonsense > $out; exit 0", "nothing that can be loaded", 0},
               {"head -c 100000 /dev/zero > $out; exit 0", "nothing that can be loaded", 0},
               {"head -c 3000 /dev/urandom >&2; exit 3", "status 3", 0},
               {"printf 'a\\033[31mb\\001'; exit 1", "a.[31mb.", 0},
               {"sleep 1000", "ended after more than 0.2 s", 200},
               {"sleep 1000 & wait", "ended after more than 0.2 s", 200}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bench b;
    bench_open(&b);
    write_script(b.script, cases[i].body);
    expect_run_within(cases[i].limit_ms, b.script, b.cache, INTERPRETED, 1, cases[i].says);
    chains_remove(b.folder);
  }
}

static void missing_compilers(void **state) {
  (void)state;
  char *cache = chains_cache();
  expect_run(NULL, cache, INTERPRETED, 0, NULL);
  expect_run("/nowhere/cc", cache, INTERPRETED, 1, "/nowhere/cc");
  expect_run("/tmp", cache, INTERPRETED, 1, "/tmp");
  if (chains_compiler()) expect_run(chains_compiler(), NULL, INTERPRETED, 0, NULL);
  chains_remove(cache);
}

/* Loops, nodes, and the source, which is there. */
static void what_a_warning_names(void **state) {
  (void)state;
  bench b;
  warned w = {0};
  char name[64], path[512];
  td_error err;
  bench_open(&b);
  write_script(b.script, "exit 1");
  assert_int_equal(run_model(b.script, b.cache, false, &w, name, &err), TD_OK);
  assert_int_equal(w.count, 1);
  if (!strstr(w.text, COMPILED) || !strstr(w.text, "node /square (Mul)")) fail_msg("%s", w.text);
  const char *source = strstr(w.text, "source: ");
  assert_non_null(source);
  snprintf(path, sizeof path, "%s", source + strlen("source: "));
  path[strcspn(path, ",\n")] = 0;
  assert_int_equal(access(path, R_OK), 0);
  chains_remove(b.folder);
}

/* A complaint about a line: the line, its loop, and the node that it came of. */
static void strict_errors(void **state) {
  (void)state;
  bench b;
  warned w = {0};
  char name[64];
  td_error err;
  bench_open(&b);
  write_script(b.script,
               "n=$(grep -n '^      const vf .*square' $src | head -1 | cut -d: -f1)\n"
               "echo \"$src:1:1: note: nothing\"; echo \"$src:$n:7: error: 'v_mul' is odd\" >&2; exit 1");
  assert_int_equal(run_model(b.script, b.cache, true, &w, name, &err), TD_NO_RESOURCE);
  assert_int_equal(w.count, 0);
  static const char *const says[] = {"status 1", "error: 'v_mul' is odd, at line ", "\"const vf v3 = v_mul(",
                                     ", of fused_add_mul_relu_0 of ", "source: "};
  for (size_t i = 0; i < sizeof says / sizeof *says; i++)
    if (!strstr(err.text, says[i])) fail_msg("\"%s\" does not say %s", err.text, says[i]);
  assert_string_equal(err.name, "node /square (Mul)");
  write_script(b.script, "echo \"$src:99999:7: error: far away\"; exit 1");
  assert_int_equal(run_model(b.script, b.cache, true, &w, name, &err), TD_NO_RESOURCE);
  assert_non_null(strstr(err.text, "far away"));
  chains_remove(b.folder);
}

/* ---- files ---- */

static void damage(const char *path) {
  const int file = open(path, O_RDWR);
  char byte;
  assert_int_equal(pread(file, &byte, 1, 4096), 1);
  byte = (char)~byte;
  assert_int_equal(pwrite(file, &byte, 1, 4096), 1);
  close(file);
}
static void cut(const char *path) { assert_int_equal(truncate(path, 100), 0); }
static void empty(const char *path) { assert_int_equal(truncate(path, 0), 0); }
static void open_to_all(const char *path) { assert_int_equal(chmod(path, 0666), 0); }
static void give_away(const char *path) {
  if (geteuid() == 0) assert_int_equal(chown(path, NOBODY, NOBODY), 0);
}
static void make_link(const char *path) {
  char other[600];
  snprintf(other, sizeof other, "%s.old", path);
  assert_int_equal(rename(path, other), 0);
  assert_int_equal(symlink(other, path), 0);
}
static void make_folder(const char *path) {
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
}
/* An object of the same cache, sealed, under another one's name. */
static void rename_it(const char *path) {
  char other[600];
  snprintf(other, sizeof other, "%.*s0123456789abcdef0123456789abcdef.so", (int)(strrchr(path, '/') + 1 - path), path);
  assert_int_equal(rename(path, other), 0);
  char command[1300];
  snprintf(command, sizeof command, "cp -p %s %s && printf x | dd of=%s bs=1 seek=100 conv=notrunc 2>/dev/null", other,
           path, path);
  assert_int_equal(system(command), 0);
}

static void damaged_files(void **state) {
  (void)state;
  const char *cc = chains_compiler();
  if (!cc) skip();
  void (*const harms[])(const char *path) = {damage, cut, empty, open_to_all, give_away, make_link, rename_it};
  for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
    char *cache = chains_cache();
    expect_run(cc, cache, COMPILED, 0, NULL);
    each_file(cache, ".so", harms[i]);
    expect_run(cc, cache, COMPILED, 0, NULL); /* built anew */
    expect_run("/bin/false", cache, INTERPRETED, 1, NULL);
    chains_remove(cache);
  }
  char *cache = chains_cache();
  expect_run(cc, cache, COMPILED, 0, NULL);
  each_file(cache, ".so", make_folder); /* nothing can take its name */
  expect_run(cc, cache, INTERPRETED, 1, ".so");
  chains_remove(cache);
}

static void unusable_folders(void **state) {
  (void)state;
  const char *cc = chains_compiler();
  if (!cc) skip();
  char *cache = chains_cache(), below[64];
  expect_run(cc, cache, COMPILED, 0, NULL);
  assert_int_equal(chmod(cache, 0777), 0);
  expect_run(cc, cache, INTERPRETED, 1, "others may write");
  assert_int_equal(chmod(cache, 0700), 0);
  if (geteuid() == 0) {
    assert_int_equal(chown(cache, NOBODY, NOBODY), 0);
    expect_run(cc, cache, INTERPRETED, 1, "belongs to another user");
    assert_int_equal(chown(cache, 0, 0), 0);
  }
  snprintf(below, sizeof below, "%s/a/b", cache);
  expect_run(cc, below, COMPILED, 0, NULL);
  expect_run(cc, "/proc/treadle", INTERPRETED, 1, "/proc/treadle");
  chains_remove(cache);
}

/* ---- disks ---- */

/* Runs `what` in a process of its own, whose failure is the test's. */
static void apart(void (*what)(void *user), void *user) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    what(user);
    _exit(0);
  }
  int code = 0;
  assert_int_equal(waitpid(child, &code, 0), child);
  if (code != 0) fail_msg("a process of the test ended with %d", code);
}

/* Exits with 0 where the model ran by `prefix` with as many warnings, and gave what it must. */
static void expect_apart(const char *cc, const char *cache, const char *prefix, uint32_t warnings) {
  warned w = {0};
  char name[64] = "";
  td_error err = {0};
  const td_status status = run_model(cc, cache, false, &w, name, &err);
  if (status == TD_OK && strncmp(name, prefix, strlen(prefix)) == 0 && w.count == warnings) return;
  fprintf(stderr, "%s: %s, %u warnings: %s%s\n", prefix, name, w.count, w.text, err.text);
  _exit(1);
}

typedef struct limits {
  const char *cache;
  rlim_t bytes;
} limits;

/* No file may become longer: writing ends as on a full disk, for the compiler too. */
static void run_within_bytes(void *user) {
  const limits *l = user;
  const struct rlimit most = {l->bytes, l->bytes};
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &most) != 0) _exit(2);
  expect_apart(chains_compiler(), l->cache, INTERPRETED, 1);
}

static void writes_that_fail(void **state) {
  (void)state;
  if (!chains_compiler()) skip();
  static const rlim_t bytes[] = {0, 1000, 9000, 12000, 16000};
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
    limits l = {chains_cache(), bytes[i]};
    apart(run_within_bytes, &l);
    expect_run(chains_compiler(), l.cache, COMPILED, 0, NULL); /* nothing that was left is in the way */
    chains_remove((char *)(uintptr_t)l.cache);
  }
}

/* A file system of its own at `path`, for this process alone. */
static void mount_small(const char *path, const char *options) {
  if (mkdir(path, 0700) != 0 && errno != EEXIST) _exit(2);
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", path, "tmpfs", 0, options) != 0)
    _exit(0); /* not allowed here: the other tests have to do */
}

static void run_on_full_disk(void *user) {
  static const char *const sizes[] = {"size=4k,mode=700", "size=16k,mode=700", "size=24k,mode=700",
                                      "size=32k,mode=700"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/disk%zu", (const char *)user, i);
    mount_small(path, sizes[i]);
    expect_apart(chains_compiler(), path, INTERPRETED, 1);
  }
}

/* What is there is used; what is not is interpreted. */
static void run_read_only(void *user) {
  char path[128];
  snprintf(path, sizeof path, "%s/disk", (const char *)user);
  mount_small(path, "mode=700");
  expect_apart(chains_compiler(), path, COMPILED, 0);
  if (mount(NULL, path, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0) _exit(0);
  expect_apart(chains_compiler(), path, COMPILED, 0);
  expect_apart("/bin/false", path, INTERPRETED, 1);
}

static void run_without_rights(void *user) {
  if (geteuid() == 0 && setuid(NOBODY) != 0) _exit(0);
  expect_apart(chains_compiler(), user, COMPILED, 0);
  chmod(user, 0500);
  expect_apart(chains_compiler(), user, COMPILED, 0);
  expect_apart("/bin/false", user, INTERPRETED, 1);
  chmod(user, 0700);
}

static void full_and_read_only_disks(void **state) {
  (void)state;
  if (!chains_compiler()) skip();
  char *folder = chains_cache();
  apart(run_on_full_disk, folder);
  apart(run_read_only, folder);
  chains_remove(folder);
  folder = chains_cache();
  if (geteuid() == 0) assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
  apart(run_without_rights, folder);
  chains_remove(folder);
}

/* ---- many processes ---- */

static uint32_t lines_of(const char *path) {
  FILE *file = fopen(path, "r");
  uint32_t count = 0;
  for (int c; file && (c = fgetc(file)) != EOF;) count += c == '\n';
  if (file) fclose(file);
  return count;
}

static void start_processes(const bench *b, const char *prefix, uint32_t warnings) {
  pid_t children[PROCESSES];
  uint32_t failed = 0;
  for (uint32_t i = 0; i < PROCESSES; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      expect_apart(b->script, b->cache, prefix, warnings);
      _exit(0);
    }
  }
  for (uint32_t i = 0; i < PROCESSES; i++) {
    int code = 0;
    waitpid(children[i], &code, 0);
    failed += code != 0;
  }
  assert_int_equal(failed, 0);
}

/* One compiles, the others take what it made: on an empty cache, and on a damaged one. */
static void two_hundred_processes(void **state) {
  (void)state;
  if (!chains_compiler()) skip();
  bench b;
  char body[256], log[128];
  bench_open(&b);
  snprintf(log, sizeof log, "%s/log", b.folder);
  snprintf(body, sizeof body, "echo one >> %s; exec $cc \"$@\"", log);
  write_script(b.script, body);
  start_processes(&b, COMPILED, 0);
  assert_int_equal(lines_of(log), 1);
  each_file(b.cache, ".so", damage);
  start_processes(&b, COMPILED, 0);
  assert_int_equal(lines_of(log), 2);
  chains_remove(b.folder);
}

/* The lock of one that was killed is taken over. */
static void killed_in_the_middle(void **state) {
  (void)state;
  if (!chains_compiler()) skip();
  bench b;
  char body[512], path[128], number[32] = "";
  bench_open(&b);
  snprintf(path, sizeof path, "%s/pid", b.folder);
  snprintf(body, sizeof body, "echo $$ > %s.new; mv %s.new %s; exec sleep 1000", path, path, path);
  write_script(b.script, body);
  const pid_t child = fork();
  if (child == 0) {
    expect_apart(b.script, b.cache, COMPILED, 0);
    _exit(0);
  }
  while (access(path, R_OK) != 0) sys_sleep_ms(5);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  FILE *file = fopen(path, "r");
  assert_non_null(fgets(number, sizeof number, file));
  fclose(file);
  kill((pid_t)strtol(number, NULL, 10), SIGKILL);
  write_script(b.script, "exec $cc \"$@\"");
  expect_run(b.script, b.cache, COMPILED, 0, NULL);
  chains_remove(b.folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(broken_compilers),      cmocka_unit_test(missing_compilers),
      cmocka_unit_test(what_a_warning_names),  cmocka_unit_test(strict_errors),
      cmocka_unit_test(damaged_files),         cmocka_unit_test(unusable_folders),
      cmocka_unit_test(writes_that_fail),      cmocka_unit_test(full_and_read_only_disks),
      cmocka_unit_test(two_hundred_processes), cmocka_unit_test(killed_in_the_middle)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
