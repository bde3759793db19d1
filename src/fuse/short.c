/* short.c -- values of f16 and bf16 in loops, which compute them in f32: each is rounded where it stands between two
 * operators, as in memory. What is such a number anyway (a load, a maximum of such) is left as it is, and a store
 * rounds by itself. */
#include "fuse/fuse_priv.h"

/* The types whose numbers a value has, as bits of `fuse_built.exact`. */
enum { EXACT_F16 = 1, EXACT_BF16 = 2 };

static uint8_t bit_of(td_dtype dtype) { return dtype == TD_F16 ? EXACT_F16 : dtype == TD_BF16 ? EXACT_BF16 : 0; }

static uint8_t bits_of_number(double x) {
  const uint8_t f16 = base_f16_to_f32(base_f64_to_f16(x)) == x ? EXACT_F16 : 0;
  return f16 | (base_bf16_to_f32(base_f64_to_bf16(x)) == x ? EXACT_BF16 : 0);
}

/* Of functions that give one of their operands, or a whole number near it. */
static bool keeps_digits(uint16_t function) {
  static const base_scalar list[] = {BASE_SCALAR_abs,   BASE_SCALAR_neg,     BASE_SCALAR_relu,   BASE_SCALAR_ceil,
                                     BASE_SCALAR_sign,  BASE_SCALAR_floor,   BASE_SCALAR_round,  BASE_SCALAR_trunc,
                                     BASE_SCALAR_where, BASE_SCALAR_maximum, BASE_SCALAR_minimum};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (function == (uint16_t)list[i]) return true;
  return false;
}

static uint8_t bits_of_function(const fuse_built *built, const base_program_op *op) {
  const base_program *p = &built->build.program;
  uint8_t bits = EXACT_F16 | EXACT_BF16;
  if (op->function == BASE_SCALAR_round_f16) return EXACT_F16;
  if (op->function == BASE_SCALAR_round_bf16) return EXACT_BF16;
  if (op->function == BASE_SCALAR_cast) return p->ops[op->in[0]].type == BASE_TYPE_BOOL ? bits : 0;
  if (op->function == BASE_SCALAR_clamp)
    return built->exact[op->in[0]] & bits_of_number(op->p[0]) & bits_of_number(op->p[1]);
  if (!keeps_digits(op->function)) return 0;
  const uint32_t operands = base_program_operands(op);
  for (uint32_t k = op->function == BASE_SCALAR_where; k < operands; k++) bits &= built->exact[op->in[k]];
  return bits;
}

static uint8_t bits_of(const ir_graph *graph, const fuse_built *built, const base_program_op *op) {
  const bool most = op->function == BASE_COMBINE_MAX || op->function == BASE_COMBINE_MIN;
  switch (op->kind) {
    case BASE_PROGRAM_LOAD: return bit_of(ir_type_of(graph, built->in[op->function])->dtype);
    case BASE_PROGRAM_NUMBER: return bits_of_number(op->p[0]);
    case BASE_PROGRAM_SCALAR: return bits_of_function(built, op);
    case BASE_PROGRAM_REDUCE:
    case BASE_PROGRAM_SCAN: return most ? built->exact[op->in[0]] : 0;
    default: return 0;
  }
}

uint16_t fuse_rounded(const ir_graph *graph, fuse_built *built, uint16_t value, td_dtype dtype) {
  const uint8_t bit = bit_of(dtype);
  if (value == LOOP_NONE || !bit) return value;
  for (; built->judged <= value; built->judged++)
    built->exact[built->judged] = bits_of(graph, built, &built->build.program.ops[built->judged]);
  if (built->exact[value] & bit) return value;
  return loop_unary(&built->build, dtype == TD_F16 ? BASE_SCALAR_round_f16 : BASE_SCALAR_round_bf16, value);
}
