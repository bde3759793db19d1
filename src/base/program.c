/* program.c -- the words of a program, and the rules it keeps. */
#include "base/program.h"

#include <string.h>

enum {
  FLOAT = 1 << BASE_TYPE_F32 | 1 << BASE_TYPE_F64,
  WHOLE = 1 << BASE_TYPE_I32 | 1 << BASE_TYPE_I64,
  NUMBER = FLOAT | WHOLE,
  BITS = WHOLE | 1 << BASE_TYPE_BOOL,
  ANY = NUMBER | BITS
};
enum { SAME, TRUTH };

static const base_scalar_info scalars[] = {
#define UNARY(family, function, types, work, value) {#function, #value, 1, types, work, false, false},
#define BINARY(family, function, types, work, value) {#function, #value, 2, types, work, false, false},
#define PURE(function, operands, types, gives, work, value) \
  {#function, #value, operands, types, work, gives == TRUTH, false},
#define PLAIN(function, operands, types, work, value) {#function, #value, operands, types, work, false, true},
#include "base/scalar.def"
};
static const char *const combines[] = {"sum", "max", "min", "prod", "log_add"};
_Static_assert(sizeof combines / sizeof *combines == BASE_COMBINE_COUNT, "a name for each");

static const struct {
  const char *name;
  td_dtype dtype;
} types[BASE_TYPE_COUNT] = {[BASE_TYPE_F32] = {"f32", TD_F32},
                            [BASE_TYPE_F64] = {"f64", TD_F64},
                            [BASE_TYPE_I32] = {"i32", TD_I32},
                            [BASE_TYPE_I64] = {"i64", TD_I64},
                            [BASE_TYPE_BOOL] = {"bool", TD_BOOL}};

const char *base_type_name(base_type type) { return types[type].name; }

base_type base_type_find(base_str name) {
  uint32_t i = 0;
  while (i < BASE_TYPE_COUNT && !base_str_is(name, types[i].name)) i++;
  return (base_type)i;
}

td_dtype base_type_dtype(base_type type) { return types[type].dtype; }

base_type base_type_of(td_dtype dtype) {
  const base_dtype_info *info = base_dtype(dtype);
  if (dtype == TD_BOOL) return BASE_TYPE_BOOL;
  if (info->is_storage || info->bits < 8) return BASE_TYPE_COUNT;
  if (info->is_float) return dtype == TD_F64 ? BASE_TYPE_F64 : BASE_TYPE_F32;
  if (!info->is_int || dtype == TD_U64) return BASE_TYPE_COUNT;
  return info->bits - info->is_signed < 32 ? BASE_TYPE_I32 : BASE_TYPE_I64;
}

const base_scalar_info *base_scalar_of(base_scalar function) { return &scalars[function]; }

base_scalar base_scalar_find(base_str name) {
  uint32_t i = 0;
  while (i < BASE_SCALAR_COUNT && !base_str_is(name, scalars[i].name)) i++;
  return (base_scalar)i;
}

const char *base_combine_name(base_combine combine) { return combines[combine]; }

base_combine base_combine_find(base_str name) {
  uint32_t i = 0;
  while (i < BASE_COMBINE_COUNT && !base_str_is(name, combines[i])) i++;
  return (base_combine)i;
}

base_scalar base_combine_scalar(base_combine combine, base_type type) {
  static const base_scalar joins[BASE_COMBINE_COUNT] = {BASE_SCALAR_add, BASE_SCALAR_maximum, BASE_SCALAR_minimum,
                                                        BASE_SCALAR_mul, BASE_SCALAR_logaddexp};
  if (type != BASE_TYPE_BOOL) return joins[combine];
  return combine == BASE_COMBINE_MAX ? BASE_SCALAR_bitwise_or : BASE_SCALAR_bitwise_and;
}

/* ---- words: a head {rank, row_axes, in_count, out_count, a byte each; count, behind, across, likewise}, then per op
 * {kind, row, function, type}, {in}, and the bits of p or `whole` ---- */

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double double_of(int64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

bool base_program_op_equal(const base_program_op *a, const base_program_op *b) {
  bool same = a->kind == b->kind && a->row == b->row && a->function == b->function && a->type == b->type &&
              a->whole == b->whole;
  for (int i = 0; i < 3; i++) same &= a->in[i] == b->in[i] && bits_of(a->p[i]) == bits_of(b->p[i]);
  return same;
}

bool base_program_equal(const base_program *a, const base_program *b) {
  bool same = a->rank == b->rank && a->row_axes == b->row_axes && a->behind == b->behind && a->across == b->across &&
              a->in_count == b->in_count && a->out_count == b->out_count && a->count == b->count;
  for (uint32_t i = 0; same && i < a->count; i++) same = base_program_op_equal(&a->ops[i], &b->ops[i]);
  return same;
}

/* A number that is no float: its first word is a whole number. */
static bool is_whole(uint8_t kind, uint8_t type) { return kind == BASE_PROGRAM_NUMBER && !base_type_is_float(type); }

void base_program_write(const base_program *p, int64_t *words) {
  words[0] =
      (int64_t)(p->rank | (uint32_t)p->row_axes << 8 | (uint32_t)p->in_count << 16 | (uint64_t)p->out_count << 24 |
                (uint64_t)p->count << 32 | (uint64_t)p->behind << 40 | (uint64_t)p->across << 48);
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    int64_t *to = words + 1 + i * BASE_PROGRAM_WORDS;
    to[0] = (int64_t)(op->kind | (uint64_t)op->row << 8 | (uint64_t)op->function << 16 | (uint64_t)op->type << 32);
    to[1] = (int64_t)(op->in[0] | (uint64_t)op->in[1] << 16 | (uint64_t)op->in[2] << 32);
    for (int k = 0; k < 3; k++) to[2 + k] = (int64_t)bits_of(op->p[k]);
    if (is_whole(op->kind, op->type)) to[2] = op->whole;
  }
}

const char *base_program_read(const int64_t *words, uint32_t count, base_program *p) {
  if (count == 0) return "it has no words";
  const uint64_t head = (uint64_t)words[0];
  const uint64_t ops = head >> 32 & 255;
  if (head >> 49) return "its head has more than it needs";
  if (ops > BASE_PROGRAM_OPS || count != 1 + ops * BASE_PROGRAM_WORDS) return "its length is not what its head says";
  p->rank = (uint8_t)head;
  p->row_axes = (uint8_t)(head >> 8);
  p->in_count = (uint8_t)(head >> 16);
  p->out_count = (uint8_t)(head >> 24);
  p->behind = (uint8_t)(head >> 40);
  p->across = head >> 48;
  p->count = (uint32_t)ops;
  for (uint32_t i = 0; i < p->count; i++) {
    const int64_t *from = words + 1 + i * BASE_PROGRAM_WORDS;
    const uint64_t w[2] = {(uint64_t)from[0], (uint64_t)from[1]};
    if (w[0] >> 40 || w[1] >> 48) return "an operation has more than it needs";
    p->ops[i] = (base_program_op){.kind = (uint8_t)w[0],
                                  .row = (uint8_t)(w[0] >> 8),
                                  .type = (uint8_t)(w[0] >> 32),
                                  .function = (uint16_t)(w[0] >> 16),
                                  .in = {(uint16_t)w[1], (uint16_t)(w[1] >> 16), (uint16_t)(w[1] >> 32)},
                                  .p = {double_of(from[2]), double_of(from[3]), double_of(from[4])}};
    if (!is_whole(p->ops[i].kind, p->ops[i].type)) continue;
    p->ops[i].p[0] = 0;
    p->ops[i].whole = from[2];
  }
  return base_program_check(p);
}

/* ---- rules ---- */

uint32_t base_program_operands(const base_program_op *op) {
  if (op->kind == BASE_PROGRAM_SCALAR) return scalars[op->function].operands;
  return op->kind == BASE_PROGRAM_REDUCE || op->kind == BASE_PROGRAM_STORE || op->kind == BASE_PROGRAM_SCAN;
}

base_type base_program_operand_type(const base_program *p, const base_program_op *op) {
  return (base_type)p->ops[op->in[base_program_operands(op) - 1]].type;
}

static bool is_row(const base_program *p, uint32_t i) { return p->ops[i].row; }

static const char *check_store(const base_program *p, const base_program_op *op, uint32_t *stored) {
  if (op->function >= p->out_count || *stored >> op->function & 1) return "an output is not there, or stored twice";
  if (op->in[2] >= TD_DTYPE_COUNT || op->in[1] > 1 || base_type_of((td_dtype)op->in[2]) != op->type)
    return "a store is of a type that its value does not become";
  if (op->row != is_row(p, op->in[0])) return "a store is not where its value is";
  *stored |= 1u << op->function;
  return NULL;
}

/* A function takes its operands' types, and gives its result's; what is not computed has one that loops know. */
static bool has_types(const base_program *p, const base_program_op *op) {
  const base_scalar_info *f = op->kind == BASE_PROGRAM_SCALAR ? &scalars[op->function] : NULL;
  const uint32_t operands = base_program_operands(op);
  if (operands == 0) return op->kind != BASE_PROGRAM_LENGTH || op->type != BASE_TYPE_BOOL;
  const base_type type = base_program_operand_type(p, op);
  const bool chooses = f && op->function == BASE_SCALAR_where,
             sums = op->kind == BASE_PROGRAM_REDUCE || op->kind == BASE_PROGRAM_SCAN;
  if (sums && op->function == BASE_COMBINE_LOG_ADD)
    return op->kind == BASE_PROGRAM_SCAN && p->across && op->type == BASE_TYPE_F64 && type == BASE_TYPE_F64;
  if (sums && type == BASE_TYPE_BOOL && op->function != BASE_COMBINE_MAX && op->function != BASE_COMBINE_MIN)
    return false;
  for (uint32_t k = 0; k < operands; k++)
    if (p->ops[op->in[k]].type != (chooses && k == 0 ? BASE_TYPE_BOOL : type)) return false;
  if (!f) return op->type == type;
  if (!(f->types >> type & 1)) return false;
  if (op->function == BASE_SCALAR_cast) return op->type != type;
  return op->type == (f->gives_truth ? BASE_TYPE_BOOL : type);
}

/* Numbers of an F32 are such: what is printed reads back as the same. */
static bool has_numbers(const base_program_op *op) {
  bool all = true;
  for (int k = 0; k < 3 && op->type == BASE_TYPE_F32; k++)
    all &= op->p[k] != op->p[k] || (double)(float)op->p[k] == op->p[k];
  return all;
}

static const char *check_op(const base_program *p, uint32_t i, uint32_t *loaded, uint32_t *stored) {
  const base_program_op *op = &p->ops[i];
  const uint32_t functions[BASE_PROGRAM_KINDS] = {
      p->in_count, 1, 1, BASE_SCALAR_COUNT, BASE_COMBINE_COUNT, p->out_count, BASE_COMBINE_COUNT};
  if (op->kind >= BASE_PROGRAM_KINDS || op->row > 1 || op->type >= BASE_TYPE_COUNT)
    return "an operation is of no kind, or no type";
  if (op->function >= functions[op->kind]) return "an operation names what is not there";
  if (op->row && !p->row_axes) return "something is computed once for a row where there are none";
  bool row = true;
  for (uint32_t k = 0; k < base_program_operands(op); k++) {
    if (op->in[k] >= i || p->ops[op->in[k]].kind == BASE_PROGRAM_STORE)
      return "an operand does not stand before its user";
    row &= is_row(p, op->in[k]) || p->ops[op->in[k]].kind == BASE_PROGRAM_NUMBER;
  }
  if (!has_numbers(op)) return "a number of f32 is none";
  if (!has_types(p, op)) return "a function gets or gives a type that it does not have";
  if (op->kind == BASE_PROGRAM_SCALAR && op->row && !row) return "an element is used where there is only a row";
  if (op->kind == BASE_PROGRAM_REDUCE && (!op->row || is_row(p, op->in[0]))) return "a reduction of what is no row";
  if (op->kind == BASE_PROGRAM_SCAN && (op->row || !p->row_axes || is_row(p, op->in[0])))
    return "a scan of what is no row";
  if (op->kind == BASE_PROGRAM_SCAN && op->in[1] > (BASE_SCAN_EXCLUSIVE | BASE_SCAN_REVERSE))
    return "a scan runs in no way that there is";
  if (op->kind == BASE_PROGRAM_LENGTH && !op->row) return "the length of a row belongs to the row";
  if (op->kind == BASE_PROGRAM_STORE) return check_store(p, op, stored);
  if (op->kind != BASE_PROGRAM_LOAD) return NULL;
  if (op->in[1] && (op->row || p->across || op->in[0] >= p->in_count || op->in[1] > p->rank ||
                    (op->in[2] & 255) >= BASE_MAX_RANK || op->in[2] >> 8 > op->in[1]))
    return "a gathered operand has no place";
  if (*loaded >> op->function & 1) return "an operand is loaded twice";
  *loaded |= 1u << op->function;
  return NULL;
}

/* What tells an operand's places tells one operand's, and is loaded as nothing else. */
static const char *check_tellers(const base_program *p, uint32_t loaded) {
  uint32_t telling = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    if (op->kind != BASE_PROGRAM_LOAD || !op->in[1]) continue;
    if ((loaded | telling) >> op->in[0] & 1) return "what tells an operand's places is read in another way, too";
    telling |= 1u << op->in[0];
  }
  return NULL;
}

bool base_program_picks(const base_program *p, base_program_pick picks[BASE_PROGRAM_OPERANDS]) {
  bool any = false;
  memset(picks, 0, BASE_PROGRAM_OPERANDS * sizeof *picks);
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    if (op->kind != BASE_PROGRAM_LOAD || !op->in[1]) continue;
    picks[op->function] = (base_program_pick){
        .picks = true, .teller = (uint8_t)op->in[0], .axes = (uint8_t)op->in[1], .axis = (uint8_t)op->in[2]};
    picks[op->in[0]] = (base_program_pick){.tells = true, .behind = (uint8_t)(op->in[2] >> 8)};
    any = true;
  }
  return any;
}

const char *base_program_check(const base_program *p) {
  uint32_t loaded = 0, stored = 0;
  if (p->rank > BASE_MAX_RANK || p->row_axes + p->behind > p->rank) return "its axes are too many";
  if ((p->across || p->behind) && !p->row_axes) return "it has no rows that vectors could go across";
  if (p->in_count > BASE_PROGRAM_OPERANDS || p->out_count < 1 || p->out_count > BASE_PROGRAM_OUTS)
    return "its operands or outputs are too many, or none";
  if (p->count > BASE_PROGRAM_OPS) return "it is too long";
  for (uint32_t i = 0; i < p->count; i++) {
    const char *wrong = check_op(p, i, &loaded, &stored);
    if (wrong) return wrong;
  }
  if (stored != (1u << p->out_count) - 1) return "an output is never stored";
  return check_tellers(p, loaded);
}

static bool runs_back(const base_program_op *op) { return op->in[1] & BASE_SCAN_REVERSE; }

/* The first stretch from `stage` on in which no scan, of those before op `i`, runs the other way. */
static uint8_t fitting_stage(const base_program *p, uint32_t i, const uint8_t *stages, uint8_t stage) {
  for (uint32_t k = 0; k < i; k++)
    if (p->ops[k].kind == BASE_PROGRAM_SCAN && stages[k] == stage && runs_back(&p->ops[k]) != runs_back(&p->ops[i])) {
      stage++;
      k = UINT32_MAX;
    }
  return stage;
}

uint32_t base_program_stages(const base_program *p, uint8_t stage[BASE_PROGRAM_OPS]) {
  uint32_t stages = 1;
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    stage[i] = 0;
    for (uint32_t k = 0; k < base_program_operands(op); k++) {
      const uint8_t from = (uint8_t)(stage[op->in[k]] + (p->ops[op->in[k]].kind == BASE_PROGRAM_REDUCE));
      if (from > stage[i]) stage[i] = from;
    }
    if (op->kind == BASE_PROGRAM_SCAN) stage[i] = fitting_stage(p, i, stage, stage[i]);
    if (stage[i] >= stages) stages = stage[i] + 1u;
  }
  return stages;
}

bool base_program_runs_back(const base_program *p, const uint8_t *stage, uint32_t at) {
  for (uint32_t i = 0; i < p->count; i++)
    if (p->ops[i].kind == BASE_PROGRAM_SCAN && stage[i] == at) return runs_back(&p->ops[i]);
  return false;
}

uint32_t base_program_kept(const base_program *p, const uint8_t *stage, bool kept[BASE_PROGRAM_OPS]) {
  uint32_t count = 0;
  memset(kept, 0, BASE_PROGRAM_OPS * sizeof kept[0]);
  for (uint32_t i = 0; i < p->count; i++)
    for (uint32_t k = 0; k < base_program_operands(&p->ops[i]) && !p->ops[i].row; k++) {
      const uint16_t in = p->ops[i].in[k];
      if (!base_program_computes(&p->ops[in]) || stage[in] >= stage[i]) continue;
      kept[in] = true;
    }
  /* A reduction belongs to the row, and is fed in the stage of what it reduces. */
  for (uint32_t i = 0; i < p->count; i++) count += kept[i];
  return count;
}
