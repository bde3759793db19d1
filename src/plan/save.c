/* save.c -- plans to the pieces of a file. What is found again when the plan is loaded is not written: lifetimes,
 * places, batches, what functions are. */
#include "base/digest.h"
#include "base/size.h"
#include "plan/file.h"
#include "plan/file_priv.h"

#include <string.h>

typedef struct kept {
  const void *at; /* of bytes in memory */
  file_constant as;
} kept;

typedef struct saving {
  base_arena *arena;
  base_map seen; /* length and checksum -> position in `constants` */
  BASE_VEC(kept) constants;
  uint64_t constant_bytes;
  BASE_VEC(file_section) sections;
  BASE_VEC(const void *) contents; /* per section; NULL: the constants */
  td_error *err;
} saving;

static td_status no_memory(const saving *s) { return base_no_memory(s->err, "a file"); }

static uint64_t aligned(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

/* ---- constants ---- */

/* Bytes that are there already are not kept twice. */
static td_status add_constant(saving *s, const void *at, size_t bytes, uint64_t *offset) {
  uint64_t *key = base_new(s->arena, uint64_t, 2);
  if (!key) return no_memory(s);
  key[0] = bytes;
  key[1] = base_checksum(at, bytes);
  const base_str text = {(const char *)key, 2 * sizeof *key};
  const uint32_t *found = base_map_get(&s->seen, text);
  if (found && memcmp(s->constants.at[*found].at, at, bytes) == 0) {
    *offset = s->constants.at[*found].as.offset;
    return TD_OK;
  }
  kept *to = base_vec_push(s->arena, &s->constants);
  if (!to || !base_map_put(&s->seen, s->arena, text, s->constants.count - 1, NULL)) return no_memory(s);
  *offset = s->constant_bytes;
  *to = (kept){at, {*offset, bytes, key[1]}};
  s->constant_bytes = aligned(*offset + bytes, FILE_ALIGN);
  return TD_OK;
}

static int64_t numel(const plan_slot *s) {
  int64_t count = 1;
  for (int32_t i = 0; i < s->rank; i++) count *= s->dims[i];
  return count;
}

static td_status add_strings(saving *s, const td_string *from, int64_t count, uint64_t *offset) {
  file_string *to = base_new(s->arena, file_string, (size_t)count + 1);
  if (!to) return no_memory(s);
  for (int64_t i = 0; i < count; i++) {
    to[i].length = from[i].length;
    if (from[i].length) TRY(add_constant(s, from[i].at, from[i].length, &to[i].offset));
  }
  return add_constant(s, to, (size_t)count * sizeof *to, offset);
}

/* From its first element to its last: plan_verify has seen that they lie in the segment. */
static size_t extent(const plan_slot *s) {
  int64_t last = 0;
  size_t bytes = 0;
  if (base_dtype(s->dtype)->bits < 8) {
    base_dtype_bytes(s->dtype, numel(s), &bytes);
    return bytes;
  }
  for (int32_t i = 0; i < s->rank; i++) last += s->dims[i] > 1 ? (s->dims[i] - 1) * s->strides[i] : 0;
  return numel(s) ? (size_t)(last + 1) * (base_dtype(s->dtype)->bits / 8u) : 0;
}

static td_status add_constants(saving *s, const plan_exe *plan, plan_slot *slots) {
  for (uint32_t i = 0; i < plan->slots.count; i++) {
    if (slots[i].place != PLAN_CONST) continue;
    const void *at = plan_constant(plan, &slots[i]);
    if (slots[i].dtype == TD_STRING) TRY(add_strings(s, at, numel(&slots[i]), &slots[i].offset));
    else TRY(add_constant(s, at, extent(&slots[i]), &slots[i].offset));
    slots[i].segment = 0;
  }
  return TD_OK;
}

/* ---- tables ---- */

static td_status add_section(saving *s, file_kind kind, uint32_t variant, uint32_t each, const void *at,
                             uint64_t bytes) {
  file_section *to = base_vec_push(s->arena, &s->sections);
  const void **contents = to ? base_vec_push(s->arena, &s->contents) : NULL;
  if (!contents) return no_memory(s);
  *to = (file_section){.kind = kind, .variant = variant, .each = each, .bytes = bytes};
  to->checksum = at ? base_checksum(at, bytes) : 0;
  *contents = at;
  return TD_OK;
}

static td_status add_symbols(saving *s, const plan_exe *plan, uint32_t variant) {
  BASE_VEC(char) texts = {0};
  for (uint32_t i = 0; i < plan->dims.symbols.count; i++) {
    const base_symbol *symbol = &plan->dims.symbols.at[i];
    const size_t length = strlen(symbol->name) + 1;
    for (size_t k = 0; k <= length; k++) {
      char *to = base_vec_push(s->arena, &texts);
      if (!to) return no_memory(s);
      *to = k ? symbol->name[k - 1] : symbol->from_data ? 'd' : 's';
    }
  }
  return add_section(s, FILE_SYMBOLS, variant, 1, texts.count ? texts.at : "", texts.count);
}

/* Slots and steps as they are before lifetimes, places and captures are found. */
static td_status add_changed(saving *s, const plan_exe *plan, uint32_t variant) {
  plan_slot *slots = base_arena_copy(s->arena, plan->slots.at, plan->slots.count * sizeof *slots);
  plan_step *steps = base_arena_copy(s->arena, plan->steps.at, plan->steps.count * sizeof *steps);
  plan_block *blocks = base_arena_copy(s->arena, plan->blocks.at, plan->blocks.count * sizeof *blocks);
  if (!slots || !steps || !blocks) return no_memory(s);
  TRY(add_constants(s, plan, slots));
  for (uint32_t i = 0; i < plan->slots.count; i++) slots[i].root = slots[i].first = slots[i].last = 0;
  for (uint32_t i = 0; i < plan->steps.count; i++)
    if (steps[i].kind == PLAN_FORK) {
      steps[i].in = steps[i].in_count = steps[i].free = 0;
      blocks[steps[i].block].params = blocks[steps[i].block].param_count = 0;
    }
  TRY(add_section(s, FILE_SLOTS, variant, sizeof *slots, slots, plan->slots.count * sizeof *slots));
  TRY(add_section(s, FILE_STEPS, variant, sizeof *steps, steps, plan->steps.count * sizeof *steps));
  return add_section(s, FILE_BLOCKS, variant, sizeof *blocks, blocks, plan->blocks.count * sizeof *blocks);
}

/* Is the machine code of function `index` among the plan's objects? */
static bool has_code(const plan_exe *plan, uint32_t index) {
  const plan_function *f = &plan->functions.at[index];
  const plan_link *link = &plan->here.links.at[index];
  return plan->objects.count && f->role == PLAN_GENERATED &&
         (link->code || strcmp(link->name, plan_name(plan, f->code)) == 0);
}

/* A function whose machine code is not saved is saved as the kernel that interprets. */
static td_status add_functions(saving *s, const plan_exe *plan, uint32_t variant) {
  plan_function *functions = base_arena_copy(s->arena, plan->functions.at, plan->functions.count * sizeof *functions);
  if (!functions) return no_memory(s);
  for (uint32_t i = 0; i < plan->functions.count; i++) {
    if (has_code(plan, i)) continue;
    if (functions[i].role == PLAN_GENERATED) functions[i].role = PLAN_KERNEL;
    functions[i].code = 0;
  }
  return add_section(s, FILE_FUNCTIONS, variant, sizeof *functions, functions,
                     plan->functions.count * sizeof *functions);
}

/* All objects one after the other. */
static td_status add_objects(saving *s, const plan_exe *plan, uint32_t variant) {
  const uint32_t count = plan->objects.count;
  file_object *table = base_new(s->arena, file_object, (size_t)count + 1);
  uint64_t bytes = 0;
  if (!table) return no_memory(s);
  for (uint32_t i = 0; i < count; i++) {
    table[i] = (file_object){bytes, plan->objects.at[i].size};
    bytes += table[i].bytes;
  }
  char *code = base_arena_alloc(s->arena, bytes + 1);
  if (!code) return no_memory(s);
  for (uint32_t i = 0; i < count; i++) memcpy(code + table[i].offset, plan->objects.at[i].bytes, table[i].bytes);
  TRY(add_section(s, FILE_OBJECTS, variant, sizeof *table, table, count * sizeof *table));
  return add_section(s, FILE_CODE, variant, 1, code, bytes);
}

static td_status add_plan(saving *s, const plan_exe *plan, uint32_t variant) {
  file_facts *facts = base_new(s->arena, file_facts, 1);
  if (!facts) return no_memory(s);
  *facts = (file_facts){.flops = plan->flops,
                        .bytes = plan->bytes,
                        .isa = plan->isa,
                        .needs = plan->needs,
                        .in_place = plan->in_place,
                        .aligned_inputs = plan->aligned_inputs,
                        .backend = plan->backend,
                        .contract = plan->contract};
  if (plan->level) strncpy(facts->level, plan->level, sizeof facts->level - 1);
  TRY(add_section(s, FILE_FACTS, variant, sizeof *facts, facts, sizeof *facts));
  TRY(add_changed(s, plan, variant));
  TRY(add_functions(s, plan, variant));
  TRY(add_symbols(s, plan, variant));
  TRY(add_objects(s, plan, variant));
  static const file_kind others[] = {FILE_OPERANDS, FILE_INPUTS, FILE_OUTPUTS, FILE_STATES, FILE_INITIALS, FILE_GUARDS,
                                     FILE_SIZES,    FILE_NAMES,  FILE_ORIGINS, FILE_PARAMS, FILE_DIMS};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const file_place *place = &file_places[others[i]];
    file_vec table;
    memcpy(&table, (const char *)plan + place->at, sizeof table);
    TRY(add_section(s, others[i], variant, place->each, table.count ? table.at : "",
                    (uint64_t)table.count * place->each));
  }
  return TD_OK;
}

static td_status add_common(saving *s) {
  const uint32_t count = s->constants.count;
  file_constant *table = base_new(s->arena, file_constant, (size_t)count + 1);
  if (!table) return no_memory(s);
  for (uint32_t i = 0; i < count; i++) table[i] = s->constants.at[i].as;
  TRY(add_section(s, FILE_TABLE, FILE_ALL, sizeof *table, table, count * sizeof *table));
  return add_section(s, FILE_CONSTANTS, FILE_ALL, 1, NULL, s->constant_bytes);
}

/* ---- the file ---- */

static td_status add_piece(saving *s, plan_image *image, const void *at, uint64_t bytes) {
  if (!bytes) return TD_OK;
  plan_piece *to = base_vec_push(s->arena, &image->pieces);
  if (!to) return no_memory(s);
  *to = (plan_piece){at, (size_t)bytes};
  image->bytes += bytes;
  return TD_OK;
}

static td_status pad_to(saving *s, plan_image *image, uint64_t offset) {
  const uint64_t bytes = offset - image->bytes;
  const void *zeros = bytes ? base_arena_alloc(s->arena, (size_t)bytes) : NULL; /* cleared */
  if (bytes && !zeros) return no_memory(s);
  return add_piece(s, image, zeros, bytes);
}

static td_status add_constant_pieces(saving *s, plan_image *image, uint64_t start) {
  for (uint32_t i = 0; i < s->constants.count; i++) {
    TRY(pad_to(s, image, start + s->constants.at[i].as.offset));
    TRY(add_piece(s, image, s->constants.at[i].at, s->constants.at[i].as.bytes));
  }
  return pad_to(s, image, start + s->constant_bytes);
}

static td_status lay_out(saving *s, const char *library, uint32_t variants, plan_image *image) {
  const uint64_t table_bytes = s->sections.count * sizeof(file_section);
  uint64_t at = sizeof(file_head) + table_bytes;
  for (uint32_t i = 0; i < s->sections.count; i++) {
    s->sections.at[i].offset = at = aligned(at, s->contents.at[i] ? FILE_ALIGN : FILE_PAGE);
    at += s->sections.at[i].bytes;
  }
  file_head *head = base_new(s->arena, file_head, 1);
  if (!head) return no_memory(s);
  *head =
      (file_head){.version = FILE_VERSION, .variants = variants, .section_count = s->sections.count, .file_bytes = at};
  memcpy(head->magic, file_magic, sizeof head->magic);
  strncpy(head->library, library, sizeof head->library - 1);
  head->checksum = base_checksum(head, offsetof(file_head, checksum)) ^ base_checksum(s->sections.at, table_bytes);
  TRY(add_piece(s, image, head, sizeof *head));
  TRY(add_piece(s, image, s->sections.at, table_bytes));
  for (uint32_t i = 0; i < s->sections.count; i++) {
    const file_section *section = &s->sections.at[i];
    TRY(pad_to(s, image, section->offset));
    if (s->contents.at[i]) TRY(add_piece(s, image, s->contents.at[i], section->bytes));
    else TRY(add_constant_pieces(s, image, section->offset));
  }
  return TD_OK;
}

td_status plan_save(const plan_exe *const *plans, uint32_t count, const char *library, base_arena *arena,
                    plan_image *image, td_error *err) {
  saving s = {.arena = arena, .err = err};
  uint32_t all = 0;
  *image = (plan_image){0};
  for (uint32_t i = 0; i < count; i++) all += plan_count(plans[i]);
  if (!count || all > FILE_VARIANTS)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a file holds 1 to %d variants of a plan, not %u", FILE_VARIANTS,
                     all);
  all = 0;
  for (uint32_t i = 0; i < count; i++)
    TRY(plan_check_constants(plans[i], err)); /* damage gets no checksum of its own */
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < plan_count(plans[i]); k++) TRY(add_plan(&s, plan_at(plans[i], k), all++));
  TRY(add_common(&s));
  return lay_out(&s, library, all, image);
}
