/* build.c -- from kernels to functions: units of text, found in the cache or compiled, several at once, and loaded. */
#include "codegen/codegen_priv.h"
#include "base/digest.h"
#include "kernels/loops/loops.h"
#include "sys/code.h"
#include "sys/sys.h"

#include <stdio.h>
#include <string.h>

enum { EACH = 6 /* least kernels of one run of the compiler */ };

struct codegen_code {
  td_allocator own;
  uint32_t count;
  void *loaded[CODEGEN_UNITS];
  codegen_object objects[CODEGEN_UNITS]; /* of these, where they are kept */
  codegen_place *places;                 /* one per kernel that has a function */
  uint32_t place_count;
};

/* What each level of instruction sets is to the compiler. */
#define LEVEL(name, architecture, needs, lanes, rows, options) {needs, options},
#define PART(...)
static const struct {
  uint32_t needs;
  const char *options;
} levels[] = {
#include "base/levels.def"
};
#undef LEVEL
#undef PART

/* The widest within `isa`; the narrowest needs nothing. */
static uint32_t level_of(uint32_t isa) {
  uint32_t level = sizeof levels / sizeof *levels - 1;
  while (levels[level].needs & ~isa) level--;
  return level;
}

uint32_t codegen_needs(uint32_t isa) { return levels[level_of(isa)].needs; }

static td_status options_of(uint32_t isa, base_arena *arena, const char **options, td_error *err) {
#define OPTION(text) text,
  static const char *const always[] = {
#include "base/compiler.def"
  };
#undef OPTION
  uint32_t n = 0;
  for (size_t i = 0; i < sizeof always / sizeof *always; i++) options[n++] = always[i];
  for (const char *at = levels[level_of(isa)].options; *at; at += strspn(at, " ")) {
    const size_t length = strcspn(at, " ");
    options[n] = base_arena_slice(arena, at, length);
    if (!options[n++]) return base_no_memory(err, "code");
    at += length;
  }
  options[n] = NULL;
  return TD_OK;
}

uint64_t codegen_contract(void) {
  base_text text = {.allocator = &base_libc_allocator};
  codegen_emit(NULL, 0, &text);
  const uint64_t number = base_checksum(text.at ? text.at : "", text.length) + text.failed;
  base_text_free(&text);
  return number;
}

/* ---- loading ---- */

typedef struct code_link {
  td_status (*run)(const base_call *call, const kern_fused_level *level, const kern_fused_code *code);
  const kern_fused_level *level;
  void (*apply)(uint32_t function, uint32_t from, uint32_t to, const double *p, void *out, const kern_fused_source *in,
                int64_t n);
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

typedef uintptr_t __attribute__((may_alias)) any_word;

/* Tells loaded code what it calls. Another model may have the same code loaded, and run it or do this just now: the
 * same words for all. */
static bool link_code(void *loaded, uint32_t isa) {
  const code_link link = {kern_fused_run, kern_fused_level_of(isa), kern_fused_apply};
  const any_word *from = (const any_word *)(const void *)&link;
  any_word *to = sys_code_find(loaded, "td_link");
  for (size_t i = 0; to && i < sizeof link / sizeof *to; i++)
    if (__atomic_load_n(&to[i], __ATOMIC_ACQUIRE) != from[i]) __atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE);
  return to;
}

static void take_function(codegen_kernel *k, void *found) {
  if (k->chain) k->body = found;
  else k->run = function_at(found);
}

/* Kernels of the unit get their functions, all or none. */
static td_status link_unit(codegen_unit *u, uint32_t isa, td_error *err) {
  if (!link_code(u->code, isa)) return codegen_fail(u, TD_NO_RESOURCE, "code without its link", err);
  for (uint32_t i = 0; i < u->count; i++)
    if (!sys_code_find(u->code, u->kernels[i].name))
      return codegen_fail(u, TD_NO_RESOURCE, "code without its functions", err);
  for (uint32_t i = 0; i < u->count; i++) take_function(&u->kernels[i], sys_code_find(u->code, u->kernels[i].name));
  return TD_OK;
}

/* "fused_add_mul_3", "chain_mish_4" */
static const char *name_kernel(const codegen_kernel *k, uint32_t number, base_arena *arena) {
  char name[64];
  snprintf(name, sizeof name, "%s", k->chain ? "chain" : "fused");
  for (uint32_t i = 0; i < k->program->count; i++) {
    const base_program_op *op = &k->program->ops[i];
    const char *word = op->kind == BASE_PROGRAM_SCALAR   ? base_scalar_of((base_scalar)op->function)->name
                       : op->kind == BASE_PROGRAM_REDUCE ? base_combine_name((base_combine)op->function)
                       : op->kind == BASE_PROGRAM_SCAN   ? "scan"
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

bool codegen_name(codegen_kernel *kernels, uint32_t count, base_arena *arena) {
  for (uint32_t i = 0; i < count; i++)
    if (!(kernels[i].name = name_kernel(&kernels[i], i, arena))) return false;
  return true;
}

static td_status make_units(codegen_kernel *kernels, uint32_t count, const codegen_means *means, codegen_unit *units,
                            uint32_t unit_count, td_error *err) {
  const codegen_setting *setting = means->setting;
  base_arena *arena = means->arena;
  for (uint32_t u = 0; u < unit_count; u++) {
    const uint32_t first = (uint32_t)((uint64_t)count * u / unit_count);
    const uint32_t end = (uint32_t)((uint64_t)count * (u + 1) / unit_count);
    units[u] = (codegen_unit){
        .kernels = kernels + first, .count = end - first, .text = {.allocator = base_arena_allocator(arena)}};
    if (!codegen_emit(kernels + first, end - first, &units[u].text)) return base_no_memory(err, "code");
    if (setting->coded) TRY(tell_unit(&units[u], u, setting, means->options, arena, err));
    if (setting->edited) TRY(take_edited(&units[u], u, setting, arena, err));
    if (!(units[u].stem = codegen_stem(&units[u], means))) return base_no_memory(err, "code");
  }
  return TD_OK;
}

typedef struct loading {
  const codegen_setting *setting;
  base_arena *arena;
  codegen_code *code;
  td_status status; /* of the first unit that failed */
  td_error *err;
} loading;

/* Takes over what a unit has become. */
static void unit_finished(void *user, codegen_unit *u, td_status status, const td_error *why) {
  loading *l = user;
  td_error own = *why;
  if (u->code) {
    l->code->objects[l->code->count] = u->object;
    l->code->loaded[l->code->count++] = u->code;
  }
  if (status == TD_OK) status = link_unit(u, l->setting->isa, &own);
  if (status == TD_OK) status = note_places(u, l->arena, l->code, &own);
  if (status == TD_OK && l->setting->made) l->setting->made(l->setting->made_user, u->kernels, u->count);
  if (status == TD_OK || l->status != TD_OK) return;
  l->status = status;
  if (l->err) *l->err = own;
}

/* Nothing is looked for in a folder that others may write to. */
static void load_units(codegen_unit *units, uint32_t count, const codegen_means *means, loading *l) {
  td_error why = {0};
  const td_status status = sys_private_folder(means->setting->cache, &why);
  if (status != TD_OK) {
    l->status = codegen_fail(&units[0], status, why.text, l->err);
    return;
  }
  for (uint32_t u = 0; u < count; u++) {
    codegen_find(&units[u], means);
    if (units[u].code) unit_finished(l, &units[u], TD_OK, &why);
  }
  codegen_compile(units, count, means, unit_finished, l);
}

static uint32_t units_for(uint32_t count, const codegen_setting *s) {
  const uint32_t wanted = (count + EACH - 1) / EACH,
                 most = s->made || s->jobs > CODEGEN_UNITS ? CODEGEN_UNITS : s->jobs;
  return wanted < most ? wanted : most;
}

static codegen_code *new_code(base_arena *arena, uint32_t kernel_count) {
  const td_allocator *allocator = base_arena_allocator(arena);
  codegen_place *places = base_new(arena, codegen_place, (size_t)kernel_count + 1);
  codegen_code *made = places ? base_alloc(allocator, sizeof *made) : NULL;
  if (made) *made = (codegen_code){.own = *allocator, .places = places};
  return made;
}

td_status codegen_load(codegen_kernel *kernels, uint32_t count, const codegen_setting *setting, base_arena *arena,
                       codegen_code **code, td_error *err) {
  const char *options[CODEGEN_OPTIONS];
  codegen_unit units[CODEGEN_UNITS] = {0};
  const codegen_means means = {setting, options, arena};
  const uint32_t unit_count = units_for(count, setting);
  loading l = {.setting = setting, .arena = arena, .code = new_code(arena, count), .err = err};
  if (!l.code) return base_no_memory(err, "code");
  l.status = options_of(setting->isa, arena, options, err);
  if (l.status == TD_OK) l.status = make_units(kernels, count, &means, units, unit_count, err);
  if (l.status == TD_OK) load_units(units, unit_count, &means, &l);
  for (uint32_t u = 0; u < unit_count; u++) base_text_free(&units[u].text);
  if (l.code->count) *code = l.code;
  else codegen_free(l.code);
  return l.status;
}

static td_status open_object(const codegen_object *object, uint32_t isa, codegen_code *to, td_error *err) {
  void *loaded = sys_code_open_bytes(object->bytes, object->size, err);
  if (!loaded) return TD_NO_RESOURCE;
  to->objects[to->count] = *object;
  to->loaded[to->count++] = loaded;
  if (!link_code(loaded, isa))
    return base_fail(err, TD_BAD_FILE, NULL, -1, "an object of machine code without its link");
  return TD_OK;
}

/* The function of a kernel, in whichever object it is. */
static td_status open_kernel(codegen_kernel *k, codegen_code *code, td_error *err) {
  char body[80];
  void *found = NULL, *rows = NULL;
  snprintf(body, sizeof body, "%s_rows", k->name);
  for (uint32_t i = 0; i < code->count && !found; i++) {
    found = sys_code_find(code->loaded[i], k->name);
    rows = sys_code_find(code->loaded[i], body);
  }
  if (!found) return base_fail(err, TD_BAD_FILE, k->name, -1, "the machine code has no function called %s", k->name);
  take_function(k, found);
  code->places[code->place_count++] =
      (codegen_place){.name = k->name, .at = rows, .bytes = rows ? sys_code_bytes(rows) : 0};
  return TD_OK;
}

td_status codegen_open(const codegen_object *objects, uint32_t count, uint32_t isa, codegen_kernel *kernels,
                       uint32_t kernel_count, base_arena *arena, codegen_code **code, td_error *err) {
  if (count > CODEGEN_UNITS)
    return base_fail(err, TD_BAD_FILE, NULL, -1, "more than %d objects of machine code", CODEGEN_UNITS);
  codegen_code *made = new_code(arena, kernel_count);
  td_status status = made ? TD_OK : base_no_memory(err, "code");
  for (uint32_t i = 0; i < count && status == TD_OK; i++) status = open_object(&objects[i], isa, made, err);
  for (uint32_t i = 0; i < kernel_count && status == TD_OK; i++) status = open_kernel(&kernels[i], made, err);
  if (status == TD_OK) *code = made;
  else codegen_free(made);
  return status;
}

bool codegen_object_at(const codegen_code *code, uint32_t index, codegen_object *object) {
  if (index >= code->count) return false;
  *object = code->objects[index];
  return true;
}

void codegen_free(codegen_code *code) {
  if (!code) return;
  for (uint32_t i = 0; i < code->count; i++) sys_code_close(code->loaded[i]);
  const td_allocator allocator = code->own;
  base_free(&allocator, code, sizeof *code);
}
