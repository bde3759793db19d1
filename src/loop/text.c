/* text.c -- programs for people, and back. */
#include "loop/loop.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- printing ---- */

static int digits_of(const base_program_op *op) { return op->type == BASE_TYPE_F32 ? 9 : 17; }

static void print_numbers(const base_program_op *op, base_text *text) {
  uint32_t count = 3;
  while (count && op->p[count - 1] == 0) count--;
  for (uint32_t i = 0; i < count; i++)
    base_text_print(text, "%s%.*g%s", i ? ", " : " {", digits_of(op), op->p[i], i + 1 == count ? "}" : "");
}

static void print_number(const base_program_op *op, base_text *text) {
  if (base_type_is_float((base_type)op->type)) base_text_print(text, "number %.*g", digits_of(op), op->p[0]);
  else base_text_print(text, "number %lld", (long long)op->whole);
}

static void print_op(const base_program *p, uint32_t i, base_text *text) {
  const base_program_op *op = &p->ops[i];
  if (op->kind == BASE_PROGRAM_STORE) {
    base_text_print(text, "  store %u %%%u %s%s", op->function, op->in[0], td_dtype_name((td_dtype)op->in[2]),
                    op->in[1] ? " drop" : "");
  } else {
    base_text_print(text, "  %%%u = ", i);
  }
  if (op->kind == BASE_PROGRAM_LOAD) base_text_print(text, "load %u", op->function);
  if (op->kind == BASE_PROGRAM_LOAD && op->in[1])
    base_text_print(text, " pick %u axes %u axis %u behind %u", op->in[0], op->in[1], op->in[2] & 255, op->in[2] >> 8);
  if (op->kind == BASE_PROGRAM_NUMBER) print_number(op, text);
  if (op->kind == BASE_PROGRAM_LENGTH) base_text_print(text, "length");
  if (op->kind == BASE_PROGRAM_REDUCE || op->kind == BASE_PROGRAM_SCAN)
    base_text_print(text, "%s %s %%%u", op->kind == BASE_PROGRAM_SCAN ? "scan" : "reduce",
                    base_combine_name((base_combine)op->function), op->in[0]);
  if (op->kind == BASE_PROGRAM_SCAN)
    base_text_print(text, "%s%s", op->in[1] & BASE_SCAN_EXCLUSIVE ? " exclusive" : "",
                    op->in[1] & BASE_SCAN_REVERSE ? " reverse" : "");
  if (op->kind == BASE_PROGRAM_SCALAR) {
    const base_scalar_info *scalar = base_scalar_of((base_scalar)op->function);
    base_text_print(text, "%s(", scalar->name);
    for (uint32_t k = 0; k < scalar->operands; k++) base_text_print(text, "%s%%%u", k ? ", " : "", op->in[k]);
    base_text_print(text, ")");
    print_numbers(op, text);
  }
  if (op->type != BASE_TYPE_F32 && op->kind != BASE_PROGRAM_STORE)
    base_text_print(text, " %s", base_type_name((base_type)op->type));
  base_text_print(text, "%s\n", op->row ? " row" : "");
}

void loop_print(const base_program *p, base_text *text) {
  base_text_print(text, "fused rank %u row %u ", p->rank, p->row_axes);
  if (p->behind) base_text_print(text, "behind %u ", p->behind);
  base_text_print(text, "%s{\n", p->across ? "across " : "");
  for (uint32_t i = 0; i < p->count; i++) print_op(p, i, text);
  base_text_print(text, "}\n");
}

/* ---- parsing ---- */

typedef struct reader {
  const char *start, *at, *end;
  bool failed;
} reader;

static void skip(reader *r) {
  while (r->at < r->end && isspace((unsigned char)*r->at)) r->at++;
}

static base_str word(reader *r) {
  skip(r);
  const char *from = r->at;
  while (r->at < r->end && (isalnum((unsigned char)*r->at) || *r->at == '_')) r->at++;
  return (base_str){from, (size_t)(r->at - from)};
}

static bool accept(reader *r, const char *what) {
  const char *before = r->at;
  const size_t n = strlen(what);
  skip(r);
  const bool found = (size_t)(r->end - r->at) >= n && memcmp(r->at, what, n) == 0 &&
                     !(isalpha((unsigned char)what[n - 1]) && r->at + n < r->end && isalnum((unsigned char)r->at[n]));
  if (found) r->at += n;
  else r->at = before;
  return found;
}

static void expect(reader *r, const char *what) {
  if (!r->failed && !accept(r, what)) r->failed = true;
}

static uint32_t whole(reader *r, uint32_t most) {
  int64_t value = 0;
  const base_str digits = word(r);
  if (r->failed || !base_str_int(digits, &value) || value < 0 || value > most) r->failed = true;
  return r->failed ? 0 : (uint32_t)value;
}

static double number(reader *r) {
  char text[48] = "";
  skip(r);
  size_t n = 0;
  while (n < sizeof text - 1 && r->at + n < r->end && !strchr(",} \n", r->at[n])) n++;
  memcpy(text, r->at, n);
  char *stop;
  const double value = strtod(text, &stop);
  if (stop == text || *stop) r->failed = true;
  r->at += n;
  return value;
}

static uint16_t value_of(reader *r) {
  expect(r, "%");
  return (uint16_t)whole(r, BASE_PROGRAM_OPS - 1);
}

static void read_scalar(reader *r, base_str name, base_program_op *op) {
  const base_scalar function = base_scalar_find(name);
  if (function == BASE_SCALAR_COUNT) {
    r->failed = true;
    return;
  }
  op->kind = BASE_PROGRAM_SCALAR;
  op->function = (uint16_t)function;
  expect(r, "(");
  for (uint32_t k = 0; k < base_scalar_of(function)->operands; k++) {
    if (k) expect(r, ",");
    op->in[k] = value_of(r);
  }
  expect(r, ")");
  if (r->failed || !accept(r, "{")) return;
  for (uint32_t i = 0; i < 3 && !r->failed; i++) {
    op->p[i] = number(r);
    if (!accept(r, ",")) break;
  }
  expect(r, "}");
}

static void read_store(reader *r, base_program *p, base_program_op *op) {
  op->kind = BASE_PROGRAM_STORE;
  op->function = (uint16_t)whole(r, BASE_PROGRAM_OUTS - 1);
  op->in[0] = value_of(r);
  op->in[2] = (uint16_t)base_dtype_from_name(word(r));
  const base_type type = base_type_of((td_dtype)op->in[2]);
  r->failed |= type == BASE_TYPE_COUNT;
  op->type = (uint8_t)type;
  op->in[1] = accept(r, "drop");
  if (op->function >= p->out_count) p->out_count = (uint8_t)(op->function + 1);
}

/* A type stands behind what it is of, and so do its numbers: which of them are whole is known then. */
static void read_type(reader *r, base_program_op *op, base_str digits) {
  const char *before = r->at;
  const base_type type = base_type_find(word(r));
  if (type == BASE_TYPE_COUNT) r->at = before;
  else op->type = (uint8_t)type;
  if (op->kind == BASE_PROGRAM_NUMBER && !base_type_is_float((base_type)op->type)) {
    op->p[0] = 0;
    r->failed |= !base_str_int(digits, &op->whole);
  }
  for (int i = 0; i < 3 && op->type == BASE_TYPE_F32; i++) op->p[i] = (float)op->p[i];
}

static void read_pick(reader *r, base_program *p, base_program_op *op) {
  op->in[0] = (uint16_t)whole(r, BASE_PROGRAM_OPERANDS - 1);
  expect(r, "axes");
  op->in[1] = (uint16_t)whole(r, BASE_MAX_RANK);
  expect(r, "axis");
  op->in[2] = (uint16_t)whole(r, BASE_MAX_RANK);
  expect(r, "behind");
  op->in[2] |= (uint16_t)(whole(r, BASE_MAX_RANK) << 8);
  r->failed |= op->in[1] == 0;
  if (op->in[0] >= p->in_count) p->in_count = (uint8_t)(op->in[0] + 1);
}

static void read_op(reader *r, base_program *p) {
  base_program_op op = {0};
  base_str digits = {0};
  if (accept(r, "store")) {
    read_store(r, p, &op);
  } else {
    if (value_of(r) != p->count) r->failed = true;
    expect(r, "=");
    const base_str what = word(r);
    if (base_str_is(what, "load")) {
      op.function = (uint16_t)whole(r, BASE_PROGRAM_OPERANDS - 1);
      if (accept(r, "pick")) read_pick(r, p, &op);
      if (op.function >= p->in_count) p->in_count = (uint8_t)(op.function + 1);
    } else if (base_str_is(what, "number")) {
      op.kind = BASE_PROGRAM_NUMBER;
      skip(r);
      digits.at = r->at;
      op.p[0] = number(r);
      digits.length = (size_t)(r->at - digits.at);
    } else if (base_str_is(what, "length")) {
      op.kind = BASE_PROGRAM_LENGTH;
    } else if (base_str_is(what, "reduce") || base_str_is(what, "scan")) {
      op.kind = base_str_is(what, "scan") ? BASE_PROGRAM_SCAN : BASE_PROGRAM_REDUCE;
      const base_combine combine = base_combine_find(word(r));
      r->failed |= combine == BASE_COMBINE_COUNT;
      op.function = (uint16_t)combine;
      op.in[0] = value_of(r);
      if (op.kind == BASE_PROGRAM_SCAN && accept(r, "exclusive")) op.in[1] |= BASE_SCAN_EXCLUSIVE;
      if (op.kind == BASE_PROGRAM_SCAN && accept(r, "reverse")) op.in[1] |= BASE_SCAN_REVERSE;
    } else {
      read_scalar(r, what, &op);
    }
    read_type(r, &op, digits);
  }
  op.row = accept(r, "row");
  if (!r->failed) p->ops[p->count++] = op;
}

td_status loop_parse(const char *text, size_t length, base_program *p, td_error *err) {
  reader r = {text, text, text + length, false};
  memset(p, 0, sizeof *p);
  expect(&r, "fused");
  expect(&r, "rank");
  p->rank = (uint8_t)whole(&r, BASE_MAX_RANK);
  expect(&r, "row");
  p->row_axes = (uint8_t)whole(&r, BASE_MAX_RANK);
  if (accept(&r, "behind")) p->behind = (uint8_t)whole(&r, BASE_MAX_RANK);
  p->across = accept(&r, "across");
  expect(&r, "{");
  while (!r.failed && !accept(&r, "}")) {
    if (p->count == BASE_PROGRAM_OPS) r.failed = true;
    else read_op(&r, p);
  }
  const char *wrong = r.failed ? "there is something that no program has" : base_program_check(p);
  return wrong ? base_fail(err, TD_BAD_FILE, NULL, r.at - r.start, "a program of loops: %s", wrong) : TD_OK;
}
