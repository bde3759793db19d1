/* saved.h -- saved plans in memory, for tests that load, damage and run them. */
#ifndef TESTS_PLAN_SAVED_H
#define TESTS_PLAN_SAVED_H
#include "base/digest.h"
#include "compile/compile.h"
#include "ops/ops.h"
#include "plan/file.h"
#include "plan/file_priv.h"
#include "runtime/runtime.h"
#include "sys/sys.h"

#include <string.h>

typedef struct saved {
  char *bytes; /* in the arena, at a multiple of 4096 */
  size_t size;
} saved;

#define SAVED_LIBRARY "test"

static inline td_status saved_of(const plan_exe *const *plans, uint32_t count, base_arena *arena, saved *to,
                                 td_error *err) {
  plan_image image;
  TRY(plan_save(plans, count, SAVED_LIBRARY, arena, &image, err));
  to->size = (size_t)image.bytes;
  to->bytes = base_arena_alloc_aligned(arena, to->size, FILE_PAGE);
  if (!to->bytes) return base_no_memory(err, "a file");
  char *at = to->bytes;
  for (uint32_t i = 0; i < image.pieces.count; i++) {
    memcpy(at, image.pieces.at[i].at, image.pieces.at[i].bytes);
    at += image.pieces.at[i].bytes;
  }
  return TD_OK;
}

static inline compile_setting saved_setting(const char *backend) {
  sys_machine machine;
  sys_machine_read(&machine);
  return (compile_setting){.backend = compile_find_backend(backend), .isa = machine.isa | BASE_ISA_VECTOR};
}

/* Opens and completes it. */
static inline td_status saved_open(const saved *from, const ir_opset *ops, const td_allocator *allocator,
                                   plan_exe **plan, td_error *err) {
  const compile_setting setting = saved_setting("interp");
  const plan_source source = {
      .bytes = from->bytes, .size = from->size, .file = "net.tdl", .library = SAVED_LIBRARY, .isa = setting.isa};
  plan_exe *made;
  TRY(plan_open(&source, allocator, &made, err));
  const td_status status = compile_restore(made, ops, &setting, err);
  if (status == TD_OK) *plan = made;
  else plan_free(made);
  return status;
}

/* Section `index`, as the file says it. */
static inline file_section *saved_section(const saved *s, uint32_t index) {
  return (file_section *)(void *)(s->bytes + sizeof(file_head)) + index;
}

/* Adds a variant of the plan of `text` for 2 as the first of its open sizes, where it has one. */
static inline td_status saved_specialise(const char *text, const ir_opset *ops, plan_exe *plan, td_error *err) {
  compile_setting setting = saved_setting("interp");
  ir_graph *graph = NULL;
  plan_exe *variant = NULL;
  uint32_t symbol = 0;
  while (symbol < plan->dims.symbols.count && plan->dims.symbols.at[symbol].from_data) symbol++;
  if (symbol == plan->dims.symbols.count) return TD_OK;
  const ir_size size = {plan->dims.symbols.at[symbol].name, 2};
  setting.general = plan;
  td_status status = ir_parse(&base_libc_allocator, ops, text, strlen(text), NULL, 0, &graph, err);
  if (status == TD_OK) status = ir_fix_sizes(graph, &size, 1, err);
  if (status == TD_OK) status = compile_graph(graph, &setting, &base_libc_allocator, NULL, &variant, err);
  plan_size *to = status == TD_OK ? base_vec_push(variant->arena, &variant->sizes) : NULL;
  if (to) *to = (plan_size){.symbol = symbol, .value = size.value};
  if (status == TD_OK) status = to ? plan_add_variant(plan, variant, err) : base_no_memory(err, "a variant");
  if (status != TD_OK) plan_free(variant);
  ir_graph_free(graph);
  return status;
}

/* Makes all checksums right again, as far as what they are of lies in the file. */
static inline void saved_seal(saved *s) {
  file_head *head = (file_head *)(void *)s->bytes;
  if (s->size < sizeof *head || head->section_count > (s->size - sizeof *head) / sizeof(file_section)) return;
  const file_section *constants = NULL;
  for (uint32_t i = 0; i < head->section_count; i++)
    if (saved_section(s, i)->kind == FILE_CONSTANTS) constants = saved_section(s, i);
  for (uint32_t i = 0; i < head->section_count; i++) {
    file_section *section = saved_section(s, i);
    if (section->kind == FILE_CONSTANTS || !base_in_range(section->offset, section->bytes, s->size)) continue;
    file_constant *table = (file_constant *)(void *)(s->bytes + section->offset);
    for (uint64_t k = 0;
         section->kind == FILE_TABLE && !(section->offset % 8) && constants &&
         base_in_range(constants->offset, constants->bytes, s->size) && k < section->bytes / sizeof *table;
         k++)
      if (base_in_range(table[k].offset, table[k].bytes, constants->bytes))
        table[k].checksum = base_checksum(s->bytes + constants->offset + table[k].offset, (size_t)table[k].bytes);
    section->checksum = base_checksum(s->bytes + section->offset, (size_t)section->bytes);
  }
  head->checksum = base_checksum(head, offsetof(file_head, checksum)) ^
                   base_checksum(saved_section(s, 0), head->section_count * sizeof(file_section));
}
#endif
