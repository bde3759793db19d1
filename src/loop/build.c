/* build.c -- programs, built value by value. */
#include "loop/loop.h"

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

uint16_t loop_load(loop_build *b, uint32_t index, bool row) {
  if (index >= BASE_PROGRAM_OPERANDS) b->failed = true;
  return add(
      b, (base_program_op){.kind = BASE_PROGRAM_LOAD, .row = row && b->program.row_axes, .function = (uint16_t)index});
}

uint16_t loop_number(loop_build *b, double number) {
  return add(b, (base_program_op){.kind = BASE_PROGRAM_NUMBER, .p = {(float)number}});
}

uint16_t loop_length(loop_build *b) {
  b->failed |= b->program.row_axes == 0;
  return add(b, (base_program_op){.kind = BASE_PROGRAM_LENGTH, .row = 1});
}

bool loop_is_row(const loop_build *b, uint16_t value) { return value != LOOP_NONE && b->program.ops[value].row; }

uint16_t loop_scalar(loop_build *b, base_scalar function, uint16_t x, uint16_t y, uint16_t z, const double *numbers,
                     uint32_t count) {
  base_program_op op = {.kind = BASE_PROGRAM_SCALAR, .function = (uint16_t)function, .in = {x, y, z}};
  const uint32_t operands = base_scalar_of(function)->operands;
  bool row = b->program.row_axes > 0, plain = true;
  for (uint32_t k = 0; k < 3; k++) {
    if (k >= operands) op.in[k] = 0;
    else if (op.in[k] == LOOP_NONE) b->failed = true;
    if (k >= operands || b->failed) continue;
    const base_program_op *from = &b->program.ops[op.in[k]];
    plain &= from->kind == BASE_PROGRAM_NUMBER;
    row &= from->row || from->kind == BASE_PROGRAM_NUMBER;
  }
  for (uint32_t i = 0; i < count && i < 3; i++) op.p[i] = (float)numbers[i];
  op.row = row && !plain;
  return add(b, op);
}

uint16_t loop_reduce(loop_build *b, base_combine combine, uint16_t x) {
  b->failed |= x == LOOP_NONE || b->program.row_axes == 0 || loop_is_row(b, x);
  return add(b, (base_program_op){.kind = BASE_PROGRAM_REDUCE, .row = 1, .function = (uint16_t)combine, .in = {x}});
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
  base_program_op op = {.kind = BASE_PROGRAM_STORE, .row = from->row, .function = index};
  memcpy(op.in, in, sizeof in);
  add(b, op);
  if (!b->failed) b->program.out_count++;
}

bool loop_finish(loop_build *b) {
  base_program *p = &b->program;
  p->in_count = 0;
  for (uint32_t i = 0; i < p->count && !b->failed; i++)
    if (p->ops[i].kind == BASE_PROGRAM_LOAD && p->ops[i].function >= p->in_count)
      p->in_count = (uint8_t)(p->ops[i].function + 1);
  return !b->failed && base_program_check(p) == NULL;
}

uint32_t loop_work(const base_program *p) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->count; i++)
    count += (p->ops[i].kind == BASE_PROGRAM_SCALAR && !p->ops[i].row) || p->ops[i].kind == BASE_PROGRAM_REDUCE;
  return count;
}
