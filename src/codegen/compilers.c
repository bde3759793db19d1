/* compilers.c -- C compilers at work: one for each unit, some at once. Who compiles a unit holds the lock of its name,
 * so that of many processes that start on an empty cache one compiles, and the others take what it made. Nobody waits
 * for a lock while he holds another: work of one's own comes first. */
#include "codegen/codegen_priv.h"
#include "sys/code.h"

#include <stdio.h>
#include <string.h>

enum { LIMIT_MS = 60000, POLL_MS = 5 };

typedef struct job {
  codegen_unit *unit;
  sys_process process;
  sys_lock lock;
  const char *source, *made, *log, *locked;
  bool running, elsewhere; /* elsewhere: somebody else has the lock */
} job;

static uint32_t limit_of(const codegen_setting *s) { return s->limit_ms ? s->limit_ms : LIMIT_MS; }

static bool stopped(const codegen_setting *s) { return s->stop && atomic_load_explicit(s->stop, memory_order_relaxed); }

/* ---- one ---- */

static td_status name_files(job *j, base_arena *arena, td_error *err) {
  const char *stem = j->unit->stem;
  const unsigned long long id = (unsigned long long)sys_process_id(), at = (unsigned long long)(uintptr_t)j->unit;
  j->source = base_arena_format(arena, "%s.c", stem);
  j->made = base_arena_format(arena, "%s.%llu.%llx.tmp", stem, id, at);
  j->log = base_arena_format(arena, "%s.%llu.%llx.log", stem, id, at);
  j->locked = base_arena_format(arena, "%s.lock", stem);
  return j->source && j->made && j->log && j->locked ? TD_OK : base_no_memory(err, "code");
}

/* The source, whole or not at all: it stays, for people. */
static td_status write_source(job *j, td_error *err) {
  const base_text *text = &j->unit->text;
  td_status status = sys_write_file(j->made, text->at, text->length, err);
  if (status == TD_OK) status = sys_rename(j->made, j->source, err);
  if (status != TD_OK) sys_remove(j->made);
  j->unit->written = status == TD_OK;
  return status;
}

static td_status start_compiler(job *j, const codegen_means *means, td_error *err) {
  const char *argv[CODEGEN_OPTIONS + 6];
  uint32_t n = 0;
  TRY(write_source(j, err));
  argv[n++] = means->setting->cc;
  for (uint32_t i = 0; means->options[i]; i++) argv[n++] = means->options[i];
  argv[n++] = "-o";
  argv[n++] = j->made;
  argv[n++] = j->source;
  argv[n] = NULL;
  TRY(sys_process_start(&j->process, argv, j->log, means->setting->cache, err));
  j->running = true;
  return TD_OK;
}

/* Without a lock (the folder takes no file) the unit is compiled, or fails, all the same. */
static td_status start_job(job *j, const codegen_means *means, td_error *err) {
  j->elsewhere = sys_lock_try(j->locked, &j->lock) == SYS_LOCK_BUSY;
  if (j->elsewhere) return TD_OK;
  codegen_find(j->unit, means); /* who had the lock before may have made it */
  return j->unit->code ? TD_OK : start_compiler(j, means, err);
}

static td_status end_compiler(job *j, const codegen_means *means, td_error *err) {
  char text[1024], what[1200];
  base_str node = {0};
  int code;
  sys_process_wait(&j->process, limit_of(means->setting), means->setting->stop, &code);
  j->running = false;
  if (code == 0 && !sys_file_stamp(j->made))
    return base_fail(err, TD_NO_RESOURCE, NULL, -1, "the C compiler made nothing");
  if (code == 0) return codegen_publish(j->made, j->unit->stem, means->arena, err);
  if (code < 0)
    return base_fail(err, TD_NO_RESOURCE, NULL, -1, "the C compiler was ended after more than %.1f s",
                     limit_of(means->setting) / 1e3);
  codegen_read_log(j->unit, j->log, text, sizeof text, &node);
  snprintf(what, sizeof what, "the C compiler failed (status %d)%s%s", code, text[0] ? ": " : "", text);
  char *name = node.length ? base_arena_slice(means->arena, node.at, node.length) : NULL;
  return base_fail(err, TD_NO_RESOURCE, name, -1, "%s", what);
}

/* What was made is found as it will be found the next time. */
static td_status finish_job(job *j, const codegen_means *means, td_error *err) {
  td_status status = TD_OK;
  if (j->running) {
    status = end_compiler(j, means, err);
    if (status == TD_OK) codegen_find(j->unit, means);
    if (status == TD_OK && !j->unit->code)
      status = base_fail(err, TD_NO_RESOURCE, NULL, -1, "the C compiler made nothing that can be loaded");
  }
  sys_remove(j->made);
  sys_remove(j->log);
  sys_lock_drop(&j->lock, j->locked);
  return status;
}

/* Until whoever has the lock is through; it is taken over from one that made nothing. */
static td_status wait_for_other(job *j, const codegen_means *means, td_error *err) {
  for (uint32_t waited = 0; waited <= limit_of(means->setting) && !stopped(means->setting); waited += POLL_MS) {
    td_status status = start_job(j, means, err);
    if (status != TD_OK || !j->elsewhere) {
      td_error other;
      const td_status finished = finish_job(j, means, status == TD_OK ? err : &other);
      return status == TD_OK ? finished : status;
    }
    sys_sleep_ms(POLL_MS);
  }
  return base_fail(err, TD_NO_RESOURCE, NULL, -1, "another process has been compiling it for more than %.1f s",
                   limit_of(means->setting) / 1e3);
}

/* ---- all ---- */

typedef struct crew {
  job jobs[CODEGEN_UNITS];
  uint32_t count;
  const codegen_means *means;
  codegen_finished finished;
  void *user;
} crew;

/* Says how a unit's work ended; `why` tells, where it failed, and gets what it was about. */
static void tell(const crew *c, job *j, td_status status, td_error *why) {
  td_error all = *why;
  if (status != TD_OK) codegen_fail(j->unit, status, why->text, &all);
  if (status != TD_OK && why->name[0]) memcpy(all.name, why->name, sizeof all.name);
  c->finished(c->user, j->unit, status, &all);
}

static void start(crew *c, job *j) {
  td_error why = {0};
  td_status status = stopped(c->means->setting) ? base_fail(&why, TD_NO_RESOURCE, NULL, -1, "it was given up") : TD_OK;
  if (status == TD_OK) status = start_job(j, c->means, &why);
  if (status == TD_OK) return;
  td_error other;
  finish_job(j, c->means, &other);
  tell(c, j, status, &why);
  j->unit = NULL;
}

static void finish(crew *c, job *j) {
  td_error why = {0};
  if (!j->unit || j->elsewhere) return;
  tell(c, j, finish_job(j, c->means, &why), &why);
}

/* Those of nobody else, at most `jobs` at once; then those of others. */
void codegen_compile(codegen_unit *units, uint32_t count, const codegen_means *means, codegen_finished finished,
                     void *user) {
  crew c = {.means = means, .finished = finished, .user = user};
  for (uint32_t i = 0; i < count; i++) {
    td_error why = {0};
    if (units[i].code) continue;
    job *j = &c.jobs[c.count++];
    *j = (job){.unit = &units[i], .lock.file = -1};
    if (name_files(j, means->arena, &why) == TD_OK) continue;
    tell(&c, j, TD_NO_RESOURCE, &why);
    c.count--;
  }
  const uint32_t jobs = means->setting->jobs ? means->setting->jobs : 1;
  for (uint32_t done = 0, next = 0; done < c.count; done++) {
    for (; next < c.count && next - done < jobs; next++) start(&c, &c.jobs[next]);
    finish(&c, &c.jobs[done]);
  }
  for (uint32_t i = 0; i < c.count; i++) {
    td_error why = {0};
    job *j = &c.jobs[i];
    if (j->unit && j->elsewhere) tell(&c, j, wait_for_other(j, means, &why), &why);
  }
}
