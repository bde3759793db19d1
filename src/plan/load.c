/* load.c -- a file to a plan. The file is a stranger's: offsets, sizes and checksums are looked at here, the tables by
 * plan_verify. They are copied first, so that nobody can change them behind its back; constants stay in the mapping. */
#include "base/digest.h"
#include "base/size.h"
#include "plan/file.h"
#include "plan/file_priv.h"

#include <stdio.h>
#include <string.h>

typedef struct loading {
  const plan_source *source;
  file_head head;
  const file_section *sections; /* a copy */
  plan_exe *plan;
  td_error *err;
} loading;

static td_status damaged(const loading *l, uint64_t offset, const char *what) {
  return base_fail(l->err, TD_BAD_FILE, l->source->file, (int64_t)offset, "a saved plan that is damaged: %s", what);
}

bool plan_is_saved(const void *bytes, size_t size) {
  return size >= sizeof file_magic && memcmp(bytes, file_magic, sizeof file_magic) == 0;
}

static td_status read_head(loading *l, base_arena *arena) {
  const plan_source *source = l->source;
  file_head *h = &l->head;
  if (source->size < sizeof *h || !plan_is_saved(source->bytes, source->size)) return damaged(l, 0, "it has no head");
  memcpy(h, source->bytes, sizeof *h);
  h->library[sizeof h->library - 1] = 0;
  if (h->version != FILE_VERSION || strcmp(h->library, source->library) != 0)
    return base_fail(l->err, TD_UNSUPPORTED, source->file, offsetof(file_head, version),
                     "saved by version %s of the library (format %u), this is %s (format %d): compile the model again",
                     h->library, h->version, source->library, FILE_VERSION);
  if (h->file_bytes != source->size) return damaged(l, offsetof(file_head, file_bytes), "it is cut off, or too long");
  const uint64_t most = (source->size - sizeof *h) / sizeof(file_section);
  if (h->section_count > most || !h->variants || h->variants > FILE_VARIANTS ||
      h->section_count != h->variants * FILE_KINDS + (FILE_KINDS_ALL - FILE_KINDS))
    return damaged(l, offsetof(file_head, section_count), "it has too few or too many sections");
  const size_t bytes = h->section_count * sizeof(file_section);
  l->sections = base_arena_copy(arena, (const char *)source->bytes + sizeof *h, bytes);
  if (!l->sections) return base_no_memory(l->err, "a plan");
  if (h->checksum != (base_checksum(source->bytes, offsetof(file_head, checksum)) ^ base_checksum(l->sections, bytes)))
    return damaged(l, offsetof(file_head, checksum), "the checksum of its head differs");
  return TD_OK;
}

/* Section `kind` of a variant, or of all. */
static td_status find_section(const loading *l, file_kind kind, uint32_t variant, const file_section **found) {
  for (uint32_t i = 0; i < l->head.section_count; i++) {
    const file_section *s = &l->sections[i];
    if (s->kind != kind || s->variant != variant) continue;
    const uint64_t align = kind == FILE_CONSTANTS ? FILE_PAGE : FILE_ALIGN;
    if (s->offset % align || !base_in_range(s->offset, s->bytes, l->source->size))
      return damaged(l, sizeof l->head + i * sizeof *s, "a section lies outside the file");
    *found = s;
    return TD_OK;
  }
  return damaged(l, sizeof l->head, "a section is missing");
}

/* A copy of the elements of a section, whose checksum is right; one byte more than there are, 0. */
static td_status read_section(const loading *l, file_kind kind, uint32_t variant, uint32_t each, void **at,
                              uint32_t *count) {
  const file_section *s;
  TRY(find_section(l, kind, variant, &s));
  if (s->each != each || s->bytes % each || s->bytes / each > UINT32_MAX - 1)
    return damaged(l, s->offset, "a section has elements of another size");
  char *copy = base_arena_alloc(l->plan->arena, (size_t)s->bytes + 1);
  if (!copy) return base_no_memory(l->err, "a plan");
  memcpy(copy, (const char *)l->source->bytes + s->offset, (size_t)s->bytes);
  if (base_checksum(copy, (size_t)s->bytes) != s->checksum)
    return damaged(l, s->offset, "the checksum of a section differs");
  *at = copy;
  *count = (uint32_t)(s->bytes / each);
  return TD_OK;
}

/* ---- variants ---- */

static td_status read_facts(const loading *l, uint32_t variant, file_facts *facts) {
  void *at;
  uint32_t count;
  TRY(read_section(l, FILE_FACTS, variant, sizeof *facts, &at, &count));
  if (count != 1) return damaged(l, 0, "a variant has no facts");
  memcpy(facts, at, sizeof *facts);
  return TD_OK;
}

/* Is it for particular sizes? */
static td_status is_special(const loading *l, uint32_t variant, bool *special) {
  const file_section *s;
  TRY(find_section(l, FILE_SIZES, variant, &s));
  *special = s->bytes > 0;
  return TD_OK;
}

static uint32_t bits_in(uint32_t mask) { return (uint32_t)__builtin_popcount(mask); }

/* Of the plans for all sizes that may run here the one that uses most. */
static td_status choose_variant(const loading *l, uint32_t *variant, file_facts *facts) {
  char names[1024] = "";
  *variant = FILE_ALL;
  for (uint32_t i = 0; i < l->head.variants; i++) {
    file_facts f;
    bool special;
    TRY(is_special(l, i, &special));
    if (special) continue;
    TRY(read_facts(l, i, &f));
    const size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%.*s", used ? ", " : "", (int)sizeof f.level, f.level);
    if (f.needs & ~l->source->isa) continue;
    if (*variant != FILE_ALL && bits_in(f.needs) <= bits_in(facts->needs)) continue;
    *variant = i;
    *facts = f;
  }
  if (*variant != FILE_ALL) return TD_OK;
  return base_fail(l->err, TD_UNSUPPORTED, l->source->file, -1,
                   "a plan saved for CPUs with %s: this one has none of that, or may not use it; compile the model for "
                   "another instruction set (--isa)",
                   names);
}

/* ---- constants ---- */

/* Their checksums are compared before anything is made of them (plan_check_constants): that reads all of the file. */
static td_status map_constants(const loading *l) {
  const file_section *s;
  void *table;
  uint32_t count;
  TRY(find_section(l, FILE_CONSTANTS, FILE_ALL, &s));
  const char *base = (const char *)l->source->bytes + s->offset;
  if (plan_add_segment(l->plan, base, s->bytes) == PLAN_NONE) return base_no_memory(l->err, "a plan");
  TRY(read_section(l, FILE_TABLE, FILE_ALL, sizeof(file_constant), &table, &count));
  plan_unread *unread = base_new(l->plan->arena, plan_unread, 1);
  const char *file = base_arena_text(l->plan->arena, l->source->file ? l->source->file : "");
  if (!unread || !file) return base_no_memory(l->err, "a plan");
  *unread = (plan_unread){
      .file = file, .base = base, .bytes = s->bytes, .offset = s->offset, .constants = table, .count = count};
  l->plan->here.unread = unread;
  return TD_OK;
}

static td_status damaged_constant(const plan_unread *u, uint64_t offset, const char *what, td_error *err) {
  return base_fail(err, TD_BAD_FILE, u->file, (int64_t)(u->offset + offset), "a saved plan that is damaged: %s", what);
}

td_status plan_check_constants(const plan_exe *plan, td_error *err) {
  plan_unread *u = plan->here.unread;
  if (!u || __atomic_load_n(&u->whole, __ATOMIC_RELAXED)) return TD_OK;
  for (uint32_t i = 0; i < u->count; i++) {
    const file_constant *c = &u->constants[i];
    if (!base_in_range(c->offset, c->bytes, u->bytes))
      return damaged_constant(u, 0, "a constant lies outside its section", err);
    if (base_checksum(u->base + c->offset, (size_t)c->bytes) != c->checksum)
      return damaged_constant(u, c->offset, "the checksum of a constant differs", err);
  }
  __atomic_store_n(&u->whole, 1, __ATOMIC_RELAXED);
  return TD_OK;
}

/* In memory the elements of a constant of strings are addresses: it gets a segment of its own. */
static td_status read_strings(const loading *l, plan_slot *slot) {
  plan_exe *plan = l->plan;
  int64_t dims[BASE_MAX_RANK], count;
  size_t bytes;
  const uint64_t room = plan->segments.at[0];
  const char *base = plan->here.bases.at[0];
  for (int32_t i = 0; i < slot->rank && i < BASE_MAX_RANK; i++) dims[i] = slot->dims[i];
  if (slot->rank < 0 || slot->rank > BASE_MAX_RANK || !base_numel(slot->rank, dims, &count) ||
      !base_mul((size_t)count, sizeof(file_string), &bytes) || !base_in_range(slot->offset, bytes, room))
    return damaged(l, 0, "a constant of texts lies outside its section");
  td_string *texts = base_new(plan->arena, td_string, (size_t)count + 1);
  if (!texts) return base_no_memory(l->err, "a plan");
  for (int64_t i = 0; i < count; i++) {
    file_string from;
    memcpy(&from, base + slot->offset + (size_t)i * sizeof from, sizeof from);
    if (!base_in_range(from.offset, from.length, room)) return damaged(l, 0, "a text lies outside its section");
    texts[i] = (td_string){base + from.offset, (size_t)from.length};
  }
  slot->segment = plan_add_segment(plan, texts, bytes);
  slot->offset = 0;
  return slot->segment == PLAN_NONE ? base_no_memory(l->err, "a plan") : TD_OK;
}

/* ---- tables ---- */

static td_status read_symbols(const loading *l, uint32_t variant) {
  base_dims *dims = &l->plan->dims;
  void *at;
  uint32_t bytes;
  TRY(read_section(l, FILE_SYMBOLS, variant, 1, &at, &bytes));
  const char *text = at, *end = text + bytes;
  if (bytes && end[-1]) return damaged(l, 0, "the name of a size has no end");
  dims->arena = l->plan->arena;
  while (text < end) {
    base_symbol *symbol = base_vec_push(l->plan->arena, &dims->symbols);
    if (!symbol) return base_no_memory(l->err, "a plan");
    if (!*text) return damaged(l, 0, "a size has no name");
    *symbol = (base_symbol){.name = text + 1, .from_data = *text == 'd'};
    text += strlen(text) + 1;
  }
  return base_dims_check(dims) ? TD_OK : damaged(l, 0, "an expression of sizes is none");
}

/* Machine code is copied, as tables are: what was looked at is what is loaded. */
static td_status read_objects(const loading *l, uint32_t variant) {
  plan_exe *plan = l->plan;
  void *table, *code;
  uint32_t count, bytes;
  TRY(read_section(l, FILE_OBJECTS, variant, sizeof(file_object), &table, &count));
  TRY(read_section(l, FILE_CODE, variant, 1, &code, &bytes));
  for (uint32_t i = 0; i < count; i++) {
    const file_object *from = (const file_object *)table + i;
    plan_object *to = base_vec_push(plan->arena, &plan->objects);
    if (!to) return base_no_memory(l->err, "a plan");
    if (!base_in_range(from->offset, from->bytes, bytes)) return damaged(l, 0, "machine code lies outside its section");
    *to = (plan_object){(const char *)code + from->offset, (size_t)from->bytes};
  }
  return TD_OK;
}

/* Without machine code, functions that have some are the kernels that interpret. */
static void leave_code_out(plan_exe *plan) {
  plan->objects.count = 0;
  for (uint32_t i = 0; i < plan->functions.count; i++) {
    plan_function *f = &plan->functions.at[i];
    if (f->role == PLAN_GENERATED) f->role = PLAN_KERNEL;
    f->code = 0;
  }
}

static td_status find_code(const loading *l, uint32_t variant, const file_facts *facts) {
  TRY(read_objects(l, variant));
  if (!l->source->trusted || !l->plan->objects.count) {
    leave_code_out(l->plan);
    return TD_OK;
  }
  l->plan->contract = facts->contract;
  if (facts->contract == l->source->contract) return TD_OK;
  return base_fail(l->err, TD_UNSUPPORTED, l->source->file, -1,
                   "its machine code is for another build of the library: compile the model again, or open it without "
                   "its machine code");
}

static td_status read_tables(const loading *l, uint32_t variant) {
  for (uint32_t kind = FILE_FACTS + 1; kind < FILE_SYMBOLS; kind++) {
    file_vec table;
    TRY(read_section(l, (file_kind)kind, variant, file_places[kind].each, &table.at, &table.count));
    table.cap = table.count;
    memcpy((char *)l->plan + file_places[kind].at, &table, sizeof table);
  }
  TRY(read_symbols(l, variant));
  for (uint32_t i = 0; i < l->plan->slots.count; i++) {
    plan_slot *slot = &l->plan->slots.at[i];
    if (slot->place == PLAN_CONST && slot->dtype == TD_STRING) TRY(read_strings(l, slot));
    else if (slot->place == PLAN_CONST && (slot->segment || slot->offset % FILE_ALIGN))
      return damaged(l, 0, "a constant lies in no segment, or askew");
  }
  return TD_OK;
}

/* Variant `number` of the file into l->plan. */
static td_status read_plan(const loading *l, uint32_t number, const file_facts *facts) {
  plan_exe *plan = l->plan;
  TRY(map_constants(l));
  TRY(read_tables(l, number));
  TRY(find_code(l, number, facts));
  if (!plan->names.count || plan->names.at[plan->names.count - 1] || facts->backend >= plan->names.count)
    return damaged(l, 0, "its texts have no end");
  plan->flops = facts->flops;
  plan->bytes = facts->bytes;
  plan->isa = facts->isa;
  plan->backend = facts->backend;
  plan->in_place = facts->in_place != 0;
  plan->aligned_inputs = facts->aligned_inputs != 0;
  for (uint32_t i = 0; i < plan->slots.count; i++)
    plan->needs_tail |= plan->slots.at[i].place == PLAN_TAIL || plan->slots.at[i].dtype == TD_STRING;
  return TD_OK;
}

/* The plans for particular sizes that stand behind plan `general` of the file, which is read. */
static td_status read_variants(const loading *l, uint32_t general) {
  for (uint32_t i = general + 1; i < l->head.variants; i++) {
    bool special;
    file_facts facts;
    TRY(is_special(l, i, &special));
    if (!special) break;
    if (l->plan->here.variants.count == PLAN_VARIANTS) return damaged(l, 0, "a plan has too many variants");
    loading own = *l;
    own.plan = plan_new(base_arena_allocator(l->plan->arena));
    plan_exe **to = own.plan ? base_vec_push(l->plan->arena, &l->plan->here.variants) : NULL;
    if (!to) {
      plan_free(own.plan);
      return base_no_memory(l->err, "a plan");
    }
    *to = own.plan;
    TRY(read_facts(&own, i, &facts));
    TRY(read_plan(&own, i, &facts));
  }
  return TD_OK;
}

static td_status read_file(loading *l) {
  file_facts facts = {0};
  uint32_t number;
  if ((uintptr_t)l->source->bytes % FILE_ALIGN)
    return base_fail(l->err, TD_BAD_ARGUMENT, l->source->file, -1, "a saved plan must lie at a multiple of %d bytes",
                     FILE_ALIGN);
  TRY(read_head(l, l->plan->arena));
  TRY(choose_variant(l, &number, &facts));
  TRY(read_plan(l, number, &facts));
  return read_variants(l, number);
}

td_status plan_open(const plan_source *source, const td_allocator *allocator, plan_exe **plan, td_error *err) {
  plan_exe *made = plan_new(allocator);
  if (!made) return base_no_memory(err, "a plan");
  loading l = {.source = source, .plan = made, .err = err};
  const td_status status = read_file(&l);
  if (status == TD_OK) *plan = made;
  else plan_free(made);
  return status;
}

/* ---- completing ---- */

/* Parts lie in their wholes. What is shown shares the memory of what it is shown of, once that is known to be there. */
static void find_roots(plan_exe *plan) {
  for (uint32_t i = 0; i < plan->slots.count; i++) {
    plan_slot *s = &plan->slots.at[i];
    s->root = s->place == PLAN_ARENA && s->part_of < plan->slots.count ? s->part_of : i;
    s->first = s->last = 0;
  }
}

static void find_shown_roots(plan_exe *plan) {
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    if (s->kind == PLAN_SHOW)
      plan->slots.at[plan->operands.at[s->out]].root = plan->slots.at[plan->operands.at[s->in]].root;
  }
}

static td_status link_all(plan_exe *plan, const plan_symbols *symbols, td_error *err) {
  for (uint32_t i = 0; i < plan->functions.count; i++) {
    const plan_link *link = base_vec_push(plan->arena, &plan->here.links);
    if (!link) return base_no_memory(err, "a plan");
    TRY(plan_link_function(plan, i, symbols, err));
  }
  return TD_OK;
}

td_status plan_complete(plan_exe *plan, const plan_symbols *symbols, td_error *err) {
  base_arena *scratch = base_arena_new(base_arena_allocator(plan->arena));
  if (!scratch) return base_no_memory(err, "a plan");
  td_status status = link_all(plan, symbols, err);
  find_roots(plan);
  if (status == TD_OK) status = plan_verify(plan, err);
  if (status == TD_OK) {
    find_shown_roots(plan);
    status = plan_find_captures(plan, scratch, err);
  }
  if (status == TD_OK) status = plan_find_lifetimes(plan, scratch, err);
  base_arena_free(scratch);
  return status;
}
