/* loop.h -- the one header of this room: programs of fused loops (base/program.h), built, printed, parsed, and run. */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H
#include "base/base.h"

/* ---- building ---- */

enum { LOOP_NONE = UINT16_MAX }; /* no value: absent, or a failure before */

/* What an operator's `lower` gets: its operands as values, and a place for its result. Equal values are made once. A
 * failure (too long a program) gives LOOP_NONE, which goes through everything. */
typedef struct loop_build {
  base_program program;
  bool failed;
  /* of the operator at hand */
  uint16_t in[BASE_PROGRAM_OPERANDS]; /* LOOP_NONE: absent. Of one that picks (IR_OP_LOOKUP): numbers of operands */
  uint32_t in_count;
  uint16_t out;
} loop_build;

void loop_start(loop_build *b, uint8_t rank, uint8_t row_axes);
/* Operand `index`; `row`: it does not change along a row. */
uint16_t loop_load(loop_build *b, uint32_t index, base_type type, bool row);
/* Operand `index`, gathered along its axis `axis` by the indices in operand `teller`, whose last axis has `behind` axes
 * of the space behind it; what is gathered has `axes` axes. See base_program_pick. */
uint16_t loop_pick(loop_build *b, uint32_t index, uint32_t teller, base_type type, uint32_t axes, uint32_t axis,
                   uint32_t behind);
/* In the type of what a function takes it with. */
uint16_t loop_number(loop_build *b, double number);
uint16_t loop_length(loop_build *b); /* elements of a row; likewise */
/* A number of a given type, of a float and of any other. */
uint16_t loop_float(loop_build *b, base_type type, double number);
uint16_t loop_whole(loop_build *b, base_type type, int64_t whole);
base_type loop_type_of(const loop_build *b, uint16_t value); /* BASE_TYPE_COUNT of LOOP_NONE */
/* `x` in another type; itself where it has it. */
uint16_t loop_cast(loop_build *b, uint16_t x, base_type type);
/* A function of scalar.def of as many operands as it has, others LOOP_NONE, with its numbers. */
uint16_t loop_scalar(loop_build *b, base_scalar function, uint16_t x, uint16_t y, uint16_t z, const double *numbers,
                     uint32_t count);
static inline uint16_t loop_unary(loop_build *b, base_scalar function, uint16_t x) {
  return loop_scalar(b, function, x, LOOP_NONE, LOOP_NONE, NULL, 0);
}
static inline uint16_t loop_binary(loop_build *b, base_scalar function, uint16_t x, uint16_t y) {
  return loop_scalar(b, function, x, y, LOOP_NONE, NULL, 0);
}
uint16_t loop_reduce(loop_build *b, base_combine combine, uint16_t x);
/* Of each element: what has been seen of the row up to it, as BASE_SCAN_* in `how` say. Rows of one axis alone are in
 * order. */
uint16_t loop_scan(loop_build *b, base_combine combine, uint16_t x, uint32_t how);
/* `value` becomes the next output; `drop`: without the axes of the row. */
void loop_store(loop_build *b, uint16_t value, td_dtype dtype, bool drop);
/* Is the value computed once for a row? */
bool loop_is_row(const loop_build *b, uint16_t value);
/* Is a value known to be whole numbers of this range, none of them -0: what was quantised? */
bool loop_is_within(const loop_build *b, uint16_t value, double least, double most);
/* Counts the operands and checks the rules. False: it failed on the way, or cannot be a program. */
bool loop_finish(loop_build *b);

/* ---- text ---- */

/*     fused rank 3 row 1 {
 *       %0 = load 0
 *       %1 = reduce max %0 row
 *       %2 = sub(%0, %1)
 *       %3 = leaky_relu(%2) {0.01}
 *       store 0 %3 f32
 *     }
 */
void loop_print(const base_program *p, base_text *text);
/* Reads what loop_print wrote. Fails with the offset of what it cannot read. */
td_status loop_parse(const char *text, size_t length, base_program *p, td_error *err);

/* ---- meaning ---- */

/* Dimensions of the space of operands of `rank` axes each, as the program aligns them: `sizes[axis]`. `dims` may be
 * NULL where all are numbers. False: they do not broadcast. */
bool loop_space(const base_program *p, base_dims *dims, const int32_t *ranks, const base_dim *const *operand_dims,
                base_dim *sizes);
/* Rank and dimensions of output `index`. */
void loop_output(const base_program *p, const base_dim *sizes, uint32_t index, td_dtype *dtype, int32_t *rank,
                 base_dim *dims);
/* The program in plain loops over doubles; outputs are rounded once. */
td_status loop_run_plain(const base_call *call, const base_program *p);
/* Functions and reductions of an element, for the cost of a program. */
uint32_t loop_work(const base_program *p);
#endif
