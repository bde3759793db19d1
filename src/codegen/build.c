/* build.c -- from kernels to functions: units of text, found in the cache or compiled, several at once, and loaded. */
#include "codegen/codegen_priv.h"
#include "base/digest.h"
#include "kernels/fused.h"
#include "sys/code.h"
#include "sys/sys.h"

#include <stdio.h>
#include <string.h>

enum { UNITS = 16, EACH = 6 /* kernels worth a compiler of their own */, LIMIT_MS = 60000, OPTIONS = 24 };

struct codegen_code {
  td_allocator own;
  uint32_t count;
  void *loaded[UNITS];
  codegen_place *places; /* one per kernel */
  uint32_t place_count;
};

/* What each level of instruction sets is to the compiler. */
static const struct {
  uint32_t needs;
  const char *options[8];
} levels[] = {
    {BASE_ISA_AVX2 | BASE_ISA_FMA | BASE_ISA_AVX512F | BASE_ISA_AVX512BW | BASE_ISA_AVX512VL | BASE_ISA_AVX512DQ,
     {"-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mprefer-vector-width=512"}},
    {BASE_ISA_AVX2 | BASE_ISA_FMA, {"-mavx2", "-mfma"}},
    {0, {NULL}}};

static void options_of(uint32_t isa, const char **options) {
  static const char *const always[] = {"-x",
                                       "c",
                                       "-std=gnu11",
                                       "-O2",
                                       "-w",
                                       "-fPIC",
                                       "-shared",
                                       "-nostdlib",
                                       "-ffp-contract=off",
                                       "-fno-math-errno",
                                       "-fno-trapping-math"};
  uint32_t n = 0, level = 0;
  for (size_t i = 0; i < sizeof always / sizeof *always; i++) options[n++] = always[i];
  while (levels[level].needs & ~isa) level++;
  for (uint32_t i = 0; i < 8 && levels[level].options[i]; i++) options[n++] = levels[level].options[i];
  options[n] = NULL;
}

static td_status failed(const codegen_unit *u, const char *what, td_error *err) {
  const char *first = u->kernels[0].origin_count ? u->kernels[0].origins[0] : "";
  return base_fail(err, TD_NO_RESOURCE, first, -1, "%s for %u fused loops (%s: %s%s); their source is %s.c", what,
                   u->count, u->kernels[0].name, first, u->count > 1 ? ", ..." : "", u->stem);
}

/* ---- compiling ---- */

typedef struct job {
  sys_process process;
  char *source, *made, *log;
  bool started;
} job;

static td_status start_job(const codegen_unit *u, const codegen_setting *setting, const char *const *options,
                           base_arena *arena, job *j, td_error *err) {
  const char *argv[OPTIONS + 6];
  uint32_t n = 0;
  const unsigned long long id = (unsigned long long)sys_process_id(), at = (unsigned long long)(uintptr_t)u;
  j->source = base_arena_format(arena, "%s.c", u->stem);
  j->made = base_arena_format(arena, "%s.%llu.%llx.tmp", u->stem, id, at);
  j->log = base_arena_format(arena, "%s.%llu.%llx.log", u->stem, id, at);
  char *draft = base_arena_format(arena, "%s.%llu.%llx.c", u->stem, id, at);
  if (!j->source || !j->made || !j->log || !draft) return base_no_memory(err, "code");
  TRY(sys_write_file(draft, u->text.at, u->text.length, err));
  TRY(sys_rename(draft, j->source, err));
  argv[n++] = setting->cc;
  for (uint32_t i = 0; options[i]; i++) argv[n++] = options[i];
  argv[n++] = "-o";
  argv[n++] = j->made;
  argv[n++] = j->source;
  argv[n] = NULL;
  TRY(sys_process_start(&j->process, argv, j->log, setting->cache, err));
  j->started = true;
  return TD_OK;
}

/* The first lines that the compiler wrote. */
static const char *first_words(const char *path, char *words, size_t room) {
  sys_mapping log;
  td_error unused;
  words[0] = '\0';
  if (sys_file_map(path, &log, &unused) != TD_OK) return words;
  const size_t n = log.size < room - 1 ? log.size : room - 1;
  memcpy(words, log.bytes, n);
  words[n] = '\0';
  sys_unmap(&log);
  return words;
}

static td_status finish_job(codegen_unit *u, base_arena *arena, job *j, td_error *err) {
  int code;
  char words[400], what[520];
  sys_process_wait(&j->process, LIMIT_MS, &code);
  j->started = false;
  td_status status = TD_OK;
  if (code != 0) {
    snprintf(what, sizeof what, code < 0 ? "the compiler took more than %d s" : "the compiler failed (status %d)",
             code < 0 ? LIMIT_MS / 1000 : code);
    status = failed(u, what, err);
    first_words(j->log, words, sizeof words);
    if (err && words[0]) {
      const size_t used = strlen(err->text);
      snprintf(err->text + used, sizeof err->text - used, ": %s", words);
    }
  }
  if (status == TD_OK) status = codegen_publish(j->made, u->stem, arena, err);
  if (status == TD_OK && !(u->code = codegen_find(u->stem, arena))) status = failed(u, "no code can be loaded", err);
  sys_remove(j->made);
  sys_remove(j->log);
  return status;
}

/* Those units that the cache does not have: at most `jobs` compilers at once. */
static td_status compile_units(codegen_unit *units, uint32_t count, const codegen_setting *setting,
                               const char *const *options, base_arena *arena, td_error *err) {
  job jobs[UNITS] = {0};
  td_status status = TD_OK;
  uint32_t done = 0, next = 0;
  while (done < count) {
    for (; next < count && next - done < base_max_i64(setting->jobs, 1); next++)
      if (status == TD_OK && !units[next].code)
        status = start_job(&units[next], setting, options, arena, &jobs[next], err);
    if (jobs[done].started) {
      td_error other;
      const td_status finished = finish_job(&units[done], arena, &jobs[done], status == TD_OK ? err : &other);
      if (status == TD_OK) status = finished;
    }
    done++;
  }
  return status;
}

/* ---- loading ---- */

typedef struct code_link {
  td_status (*run)(const base_call *call, const kern_fused_level *level, const kern_fused_code *code);
  const kern_fused_level *level;
} code_link;

/* POSIX has functions and data share their pointers. */
static base_call_fn function_at(void *address) {
  union {
    void *data;
    base_call_fn function;
  } at = {address};
  return at.function;
}

/* Where the function `body` begins in the text, from *at on, which goes there; *line follows. 0: nowhere. */
static uint32_t line_of(const base_text *text, const char *body, size_t *at, uint32_t *line) {
  char head[96];
  snprintf(head, sizeof head, "void %s(", body);
  const char *found = text->at ? strstr(text->at + *at, head) : NULL;
  if (!found) return 0;
  for (const char *c = text->at + *at; c < found; c++) *line += *c == '\n';
  *at = (size_t)(found - text->at);
  return *line;
}

/* Notes where the unit's kernels are, for people and profilers. */
static td_status note_places(const codegen_unit *u, base_arena *arena, codegen_code *code, td_error *err) {
  const char *source = base_arena_format(arena, "%s.c", u->stem);
  size_t at = 0;
  uint32_t line = 1;
  if (!source) return base_no_memory(err, "code");
  for (uint32_t i = 0; i < u->count; i++) {
    char body[80];
    snprintf(body, sizeof body, "%s_rows", u->kernels[i].name);
    void *function = sys_code_find(u->code, body);
    code->places[code->place_count++] = (codegen_place){.name = u->kernels[i].name,
                                                        .at = function,
                                                        .bytes = function ? sys_code_bytes(function) : 0,
                                                        .source = source,
                                                        .line = line_of(&u->text, body, &at, &line)};
  }
  return TD_OK;
}

const codegen_place *codegen_find_place(const codegen_code *code, const char *name) {
  for (uint32_t i = 0; i < code->place_count; i++)
    if (strcmp(code->places[i].name, name) == 0) return &code->places[i];
  return NULL;
}

static td_status link_unit(const codegen_unit *u, codegen_kernel *kernels, uint32_t isa, td_error *err) {
  code_link *to = sys_code_find(u->code, "td_link");
  if (!to) return failed(u, "code without its link", err);
  *to = (code_link){kern_fused_run, kern_fused_level_of(isa)};
  for (uint32_t i = 0; i < u->count; i++) {
    void *found = sys_code_find(u->code, kernels[i].name);
    if (!found) return failed(u, "code without its functions", err);
    kernels[i].run = function_at(found);
  }
  return TD_OK;
}

/* "fused_add_mul_3" */
static const char *name_kernel(const codegen_kernel *k, uint32_t number, base_arena *arena) {
  char name[64] = "fused";
  for (uint32_t i = 0; i < k->program->count; i++) {
    const base_program_op *op = &k->program->ops[i];
    const char *word = op->kind == BASE_PROGRAM_SCALAR   ? base_scalar_of((base_scalar)op->function)->name
                       : op->kind == BASE_PROGRAM_REDUCE ? base_combine_name((base_combine)op->function)
                                                         : NULL;
    const size_t used = strlen(name);
    if (word && used + strlen(word) + 2 < sizeof name) snprintf(name + used, sizeof name - used, "_%s", word);
  }
  return base_arena_format(arena, "%s_%u", name, number);
}

static void digest_of(const base_text *text, char digest[BASE_DIGEST_TEXT]) {
  uint8_t bytes[BASE_DIGEST_BYTES];
  base_digest(text->at, text->length, bytes);
  base_digest_text(bytes, digest);
}

/* Takes the text of unit `index` from a file that a person may have changed, where that was made of what the unit has:
 * its script says so. */
static td_status take_edited(codegen_unit *u, uint32_t index, const codegen_setting *setting, base_arena *arena,
                             td_error *err) {
  const char *path = base_arena_format(arena, "%s/generated.%u.c", setting->edited, index);
  const char *script = base_arena_format(arena, "%s/generated.%u.sh", setting->edited, index);
  char digest[BASE_DIGEST_TEXT];
  sys_mapping file;
  td_error missing;
  if (!path || !script) return base_no_memory(err, "code");
  if (sys_file_map(script, &file, &missing) != TD_OK) return TD_OK;
  digest_of(&u->text, digest);
  const bool same = memmem(file.bytes, file.size, digest, strlen(digest)) != NULL;
  sys_unmap(&file);
  if (!same || sys_file_map(path, &file, &missing) != TD_OK) return TD_OK;
  u->text.length = 0;
  base_text_add(&u->text, file.bytes, file.size);
  sys_unmap(&file);
  return u->text.failed ? base_no_memory(err, "code") : TD_OK;
}

/* Tells the text of unit `index`, and how it is compiled. */
static td_status tell_unit(const codegen_unit *u, uint32_t index, const codegen_setting *setting,
                           const char *const *options, base_arena *arena, td_error *err) {
  const char *name = base_arena_format(arena, "generated.%u.c", index);
  const char *script = base_arena_format(arena, "generated.%u.sh", index);
  base_text command = {.allocator = base_arena_allocator(arena)};
  char digest[BASE_DIGEST_TEXT];
  digest_of(&u->text, digest);
  base_text_print(&command, "#!/bin/sh\n# was generated as %s\n%s", digest, setting->cc);
  for (uint32_t i = 0; options[i]; i++) base_text_print(&command, " %s", options[i]);
  base_text_print(&command, " -o generated.%u.so generated.%u.c\n", index, index);
  td_status status = name && script && !command.failed ? TD_OK : base_no_memory(err, "code");
  if (status == TD_OK) status = setting->coded(setting->coded_user, name, u->text.at, u->text.length);
  if (status == TD_OK) status = setting->coded(setting->coded_user, script, command.at, command.length);
  base_text_free(&command);
  return status;
}

static td_status make_units(codegen_kernel *kernels, uint32_t count, const codegen_setting *setting,
                            const char *const *options, base_arena *arena, codegen_unit *units, uint32_t unit_count,
                            td_error *err) {
  for (uint32_t i = 0; i < count; i++)
    if (!(kernels[i].name = name_kernel(&kernels[i], i, arena))) return base_no_memory(err, "code");
  for (uint32_t u = 0; u < unit_count; u++) {
    const uint32_t first = (uint32_t)((uint64_t)count * u / unit_count);
    const uint32_t end = (uint32_t)((uint64_t)count * (u + 1) / unit_count);
    units[u] = (codegen_unit){
        .kernels = kernels + first, .count = end - first, .text = {.allocator = base_arena_allocator(arena)}};
    if (!codegen_emit(kernels + first, end - first, &units[u].text)) return base_no_memory(err, "code");
    if (setting->coded) TRY(tell_unit(&units[u], u, setting, options, arena, err));
    if (setting->edited) TRY(take_edited(&units[u], u, setting, arena, err));
    if (!(units[u].stem = codegen_stem(&units[u], setting, options, arena))) return base_no_memory(err, "code");
    units[u].code = codegen_find(units[u].stem, arena);
  }
  return TD_OK;
}

td_status codegen_load(codegen_kernel *kernels, uint32_t count, const codegen_setting *setting, base_arena *arena,
                       codegen_code **code, td_error *err) {
  const char *options[OPTIONS];
  codegen_unit units[UNITS] = {0};
  const td_allocator *allocator = base_arena_allocator(arena);
  uint32_t wanted = (count + EACH - 1) / EACH, unit_count = wanted < setting->jobs ? wanted : setting->jobs;
  if (unit_count > UNITS) unit_count = UNITS;
  codegen_code *made = base_alloc(allocator, sizeof *made);
  if (!made) return base_no_memory(err, "code");
  *made = (codegen_code){.own = *allocator, .places = base_new(arena, codegen_place, (size_t)count + 1)};
  options_of(setting->isa, options);
  td_status status = made->places ? sys_private_folder(setting->cache, err) : base_no_memory(err, "code");
  if (status == TD_OK) status = make_units(kernels, count, setting, options, arena, units, unit_count, err);
  if (status == TD_OK) status = compile_units(units, unit_count, setting, options, arena, err);
  for (uint32_t u = 0; u < unit_count; u++) {
    if (units[u].code) made->loaded[made->count++] = units[u].code;
    if (status == TD_OK) status = link_unit(&units[u], kernels + (units[u].kernels - kernels), setting->isa, err);
    if (status == TD_OK) status = note_places(&units[u], arena, made, err);
    base_text_free(&units[u].text);
  }
  if (status == TD_OK) *code = made;
  else codegen_free(made);
  return status;
}

void codegen_free(codegen_code *code) {
  if (!code) return;
  for (uint32_t i = 0; i < code->count; i++) sys_code_close(code->loaded[i]);
  const td_allocator allocator = code->own;
  base_free(&allocator, code, sizeof *code);
}
