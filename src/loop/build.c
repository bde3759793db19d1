/* build.c -- programs, built value by value. */
#include "loop/loop.h"

#include <math.h>
#include <string.h>

void loop_start(loop_build *b, uint8_t rank, uint8_t row_axes) {
  memset(b, 0, sizeof *b);
  b->program.rank = rank;
  b->program.row_axes = row_axes;
}

static uint16_t add(loop_build *b, base_program_op op) {
  base_program *p = &b->program;
  if (b->failed) return LOOP_NONE;
  for (uint32_t i = 0; i < p->count && op.kind != BASE_PROGRAM_STORE; i++)
    if (base_program_op_equal(&p->ops[i], &op)) return (uint16_t)i;
  if (p->count == BASE_PROGRAM_OPS) {
    b->failed = true;
    return LOOP_NONE;
  }
  p->ops[p->count] = op;
  return (uint16_t)p->count++;
}

uint16_t loop_load(loop_build *b, uint32_t index, base_type type, bool row) {
  if (index >= BASE_PROGRAM_OPERANDS || type >= BASE_TYPE_COUNT) b->failed = true;
  return add(b, (base_program_op){.kind = BASE_PROGRAM_LOAD,
                                  .row = row && b->program.row_axes,
                                  .type = (uint8_t)type,
                                  .function = (uint16_t)index});
}

uint16_t loop_pick(loop_build *b, uint32_t index, uint32_t teller, base_type type, uint32_t axes, uint32_t axis,
                   uint32_t behind) {
  b->failed |= index >= BASE_PROGRAM_OPERANDS || teller >= BASE_PROGRAM_OPERANDS || type >= BASE_TYPE_COUNT;
  return add(b, (base_program_op){.kind = BASE_PROGRAM_LOAD,
                                  .type = (uint8_t)type,
                                  .function = (uint16_t)index,
                                  .in = {(uint16_t)teller, (uint16_t)axes, (uint16_t)(axis | behind << 8)}});
}

uint16_t loop_float(loop_build *b, base_type type, double number) {
  return add(b, (base_program_op){.kind = BASE_PROGRAM_NUMBER, .type = (uint8_t)type, .p = {number}});
}

uint16_t loop_number(loop_build *b, double number) { return loop_float(b, BASE_TYPE_F32, number); }

uint16_t loop_whole(loop_build *b, base_type type, int64_t whole) {
  return add(b, (base_program_op){.kind = BASE_PROGRAM_NUMBER, .type = (uint8_t)type, .whole = whole});
}

uint16_t loop_length(loop_build *b) {
  b->failed |= b->program.row_axes == 0;
  return add(b, (base_program_op){.kind = BASE_PROGRAM_LENGTH, .row = 1});
}

base_type loop_type_of(const loop_build *b, uint16_t value) {
  return value == LOOP_NONE ? BASE_TYPE_COUNT : (base_type)b->program.ops[value].type;
}

/* `value`, or, where it is a number or the length of a row, which were made before anybody knew what they would meet,
 * the same in `type`. */
static uint16_t fitted(loop_build *b, uint16_t value, base_type type) {
  if (value == LOOP_NONE || type == BASE_TYPE_COUNT || b->program.ops[value].type == type) return value;
  base_program_op op = b->program.ops[value];
  if (op.type != BASE_TYPE_F32) return value;
  if (op.kind == BASE_PROGRAM_NUMBER)
    return base_type_is_float(type) ? loop_float(b, type, op.p[0])
                                    : loop_whole(b, type, base_load_i64(TD_F64, &op.p[0], 0));
  if (op.kind != BASE_PROGRAM_LENGTH) return value;
  op.type = (uint8_t)type;
  return add(b, op);
}

bool loop_is_row(const loop_build *b, uint16_t value) { return value != LOOP_NONE && b->program.ops[value].row; }

/* The type that the operands of a function have in common: that of the first which is no number. */
static base_type common_type(const loop_build *b, base_scalar function, const uint16_t in[3], uint32_t operands) {
  base_type type = BASE_TYPE_F32;
  for (uint32_t k = operands; k-- > (function == BASE_SCALAR_where);)
    if (in[k] != LOOP_NONE &&
        (b->program.ops[in[k]].type != BASE_TYPE_F32 || b->program.ops[in[k]].kind > BASE_PROGRAM_LENGTH))
      type = loop_type_of(b, in[k]);
  return type;
}

uint16_t loop_scalar(loop_build *b, base_scalar function, uint16_t x, uint16_t y, uint16_t z, const double *numbers,
                     uint32_t count) {
  base_program_op op = {.kind = BASE_PROGRAM_SCALAR, .function = (uint16_t)function, .in = {x, y, z}};
  const base_scalar_info *info = base_scalar_of(function);
  const base_type type = common_type(b, function, op.in, info->operands);
  bool row = b->program.row_axes > 0, plain = true;
  for (uint32_t k = 0; k < 3; k++) {
    if (k >= info->operands) op.in[k] = 0;
    else if (op.in[k] == LOOP_NONE) b->failed = true;
    if (k >= info->operands || b->failed) continue;
    op.in[k] = fitted(b, op.in[k], k == 0 && function == BASE_SCALAR_where ? BASE_TYPE_BOOL : type);
    if (op.in[k] == LOOP_NONE) return LOOP_NONE;
    const base_program_op *from = &b->program.ops[op.in[k]];
    plain &= from->kind == BASE_PROGRAM_NUMBER;
    row &= from->row || from->kind == BASE_PROGRAM_NUMBER;
  }
  for (uint32_t i = 0; i < count && i < 3; i++) op.p[i] = numbers[i];
  op.row = row && !plain;
  op.type = (uint8_t)(info->gives_truth ? BASE_TYPE_BOOL : type);
  return add(b, op);
}

enum { F32_WHOLE = 1 << 24 }; /* up to which f32 has all whole numbers */

bool loop_is_within(const loop_build *b, uint16_t value, double least, double most) {
  if (value == LOOP_NONE) return false;
  const base_program_op *op = &b->program.ops[value];
  if (op->kind != BASE_PROGRAM_SCALAR) return false;
  if (op->function == BASE_SCALAR_cast) return loop_is_within(b, op->in[0], least, most);
  if (op->function == BASE_SCALAR_quantise) return op->p[1] >= fmax(least, 0) && op->p[2] <= most;
  if (op->function != BASE_SCALAR_add) return false;
  const base_program_op *first = &b->program.ops[op->in[0]], *second = &b->program.ops[op->in[1]];
  return first->kind == BASE_PROGRAM_SCALAR && first->function == BASE_SCALAR_quantise &&
         second->kind == BASE_PROGRAM_NUMBER && first->p[1] + second->p[0] >= least &&
         first->p[2] + second->p[0] <= most;
}

/* Whole numbers that f32 has come back from a whole type as they were. */
uint16_t loop_cast(loop_build *b, uint16_t x, base_type type) {
  if (x == LOOP_NONE || type == BASE_TYPE_COUNT || b->failed) return LOOP_NONE;
  const base_program_op *from = &b->program.ops[x];
  if (from->type == type) return x;
  if (from->kind == BASE_PROGRAM_SCALAR && from->function == BASE_SCALAR_cast &&
      b->program.ops[from->in[0]].type == type && loop_is_within(b, from->in[0], -F32_WHOLE, F32_WHOLE))
    return from->in[0];
  return add(b, (base_program_op){.kind = BASE_PROGRAM_SCALAR,
                                  .row = from->row,
                                  .type = (uint8_t)type,
                                  .function = BASE_SCALAR_cast,
                                  .in = {x}});
}

uint16_t loop_reduce(loop_build *b, base_combine combine, uint16_t x) {
  b->failed |= x == LOOP_NONE || b->program.row_axes == 0 || loop_is_row(b, x);
  if (b->failed) return LOOP_NONE;
  return add(b, (base_program_op){.kind = BASE_PROGRAM_REDUCE,
                                  .row = 1,
                                  .type = b->program.ops[x].type,
                                  .function = (uint16_t)combine,
                                  .in = {x}});
}

uint16_t loop_scan(loop_build *b, base_combine combine, uint16_t x, uint32_t how) {
  b->failed |= x == LOOP_NONE || b->program.row_axes == 0 || loop_is_row(b, x);
  if (b->failed) return LOOP_NONE;
  return add(b, (base_program_op){.kind = BASE_PROGRAM_SCAN,
                                  .type = b->program.ops[x].type,
                                  .function = (uint16_t)combine,
                                  .in = {x, (uint16_t)how}});
}

void loop_store(loop_build *b, uint16_t value, td_dtype dtype, bool drop) {
  const uint16_t index = b->program.out_count;
  if (value == LOOP_NONE || index >= BASE_PROGRAM_OUTS || b->failed) {
    b->failed = true;
    return;
  }
  const base_program_op *from = &b->program.ops[value];
  /* A number is stored for every element; the form of a store is that of its value. */
  const uint16_t in[3] = {value, drop && from->row, (uint16_t)dtype};
  base_program_op op = {.kind = BASE_PROGRAM_STORE, .row = from->row, .type = from->type, .function = index};
  memcpy(op.in, in, sizeof in);
  add(b, op);
  if (!b->failed) b->program.out_count++;
}

bool loop_finish(loop_build *b) {
  base_program *p = &b->program;
  p->in_count = 0;
  for (uint32_t i = 0; i < p->count; i++)
    for (int k = 0; k < 3 && p->ops[i].type == BASE_TYPE_F32; k++) p->ops[i].p[k] = (float)p->ops[i].p[k];
  for (uint32_t i = 0; i < p->count && !b->failed; i++) {
    const base_program_op *op = &p->ops[i];
    if (op->kind != BASE_PROGRAM_LOAD) continue;
    if (op->function >= p->in_count) p->in_count = (uint8_t)(op->function + 1);
    if (op->in[1] && op->in[0] >= p->in_count) p->in_count = (uint8_t)(op->in[0] + 1);
  }
  return !b->failed && base_program_check(p) == NULL;
}

uint32_t loop_work(const base_program *p) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->count; i++)
    count += base_program_computes(&p->ops[i]) || p->ops[i].kind == BASE_PROGRAM_REDUCE;
  return count;
}
