/* loops.h -- running a program of base/program.h: what the block interpreter and generated code share. The space of a
 * call is made of planes of rows of elements, dimensions merged where all operands run through them alike; a body
 * computes some rows, and sees operands that are dense along them or one number a row, of the element types that
 * base_type_dtype names. Others are brought into that
 * form in front of it, a tile of some rows at a time, cut where rows may be cut: converted, gathered, or, where they
 * are dense from row to row, transposed. Outputs may have any strides. */
#ifndef KERNELS_LOOPS_H
#define KERNELS_LOOPS_H
#include "base/base.h"
#include "kernels/epilogue.h"

/* A program with what running it asks for. */
typedef struct kern_fused_program {
  uint32_t stages, kept_words; /* of 4 bytes, for each element of a row */
  uint8_t stage[BASE_PROGRAM_OPS];
  bool kept[BASE_PROGRAM_OPS];     /* along the row, see base_program_kept */
  bool back[BASE_PROGRAM_OPS + 1]; /* per stage: it runs from the row's last element down */
  uint8_t
      slot[BASE_PROGRAM_OPS]; /* where a block of it stands: of a value that is kept, in words of 4 bytes an element */
  uint32_t last_work;         /* the last op that is no store */
  bool wide;                  /* some value has 8 bytes */
  base_program p;             /* the last: memory may end with the last of its ops */
} kern_fused_program;
/* The program in attributes of td::fused, or (`chain`) of an operator with an epilogue. NULL: *f is made; else what is
 * wrong with it. */
const char *kern_fused_read(const base_attrs *attrs, bool chain, kern_fused_program *f);
/* The same in `arena`, for the calls of a step (base_call.program). NULL: there is none, or no memory; calls then read
 * it themselves. */
const kern_fused_program *kern_fused_ready(const base_attrs *attrs, bool chain, base_arena *arena);

/* What a body sees. Generated code declares the same struct in its text: the order of the fields is a contract. Of a
 * program across rows `pitch` and `out_pitch` are elements from one element of a row to the next, whose neighbours are
 * the same element of the next rows. */
typedef struct kern_fused_rows {
  const void *in[BASE_PROGRAM_OPERANDS]; /* per operand, of the first row */
  int64_t pitch[BASE_PROGRAM_OPERANDS];  /* elements from row to row */
  void *out[BASE_PROGRAM_OUTS];
  int64_t out_pitch[BASE_PROGRAM_OUTS];
  int64_t rows, n; /* n elements of a row */
  /* Room for kept_words of each element of a row, their number rounded up to 16; of a program across rows for those of
   * each element of KERN_FUSED_LANES rows, or of all that there are. */
  float *kept;
  uint64_t scalars; /* bit k: operand k is one number a row */
  uint64_t stream;  /* not 0: outputs are more than caches keep, and begin rows at a multiple of 64 bytes */
  const kern_fused_program *program;
} kern_fused_rows;
typedef void (*kern_fused_body)(const kern_fused_rows *rows);

/* A row shorter than SHORT takes in further dimensions, of less than FEW and but for the outermost one: the rows of
 * each would be a tile of their own. */
enum { KERN_FUSED_SHORT = 16, KERN_FUSED_FEW = 16 };

enum { KERN_FUSED_LANES = 128 };

/* Elements of 4 bytes of a row whose reductions are joined by themselves before they join the row's: half as many in a
 * program that has some of 8. Sums of long rows stay accurate, and code has the bits of the interpreter. */
enum { KERN_FUSED_PIECE = 512 };

/* Outputs of as many bytes are written past the caches: reading what a write replaces would cost as much again, and
 * whoever reads them finds little of them there. */
enum { KERN_FUSED_STREAMED = 16 << 20 };

/* What generated code was made for. */
typedef struct kern_fused_code {
  kern_fused_body body;
  uint64_t scalars; /* bit k: it takes operand k as one number a row, others as rows */
} kern_fused_code;

/* n elements in a row of a type that bodies compute with in another one of 4 bytes (base_type_dtype), which `read`
 * gives and `write` takes. NULL: there is none. */
typedef struct kern_fused_form {
  void (*read)(void *to, const void *from, int64_t n), (*write)(void *to, const void *from, int64_t n);
} kern_fused_form;

/* What is written once per level of instruction sets. */
typedef struct kern_fused_level {
  kern_fused_body interpret;
  /* to[i * to_step + k] = from[k * from_step + i], i < rows, k < columns. `ahead`: as many floats behind them in each
   * column are wanted next; or 0. */
  void (*turn)(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t rows, int64_t columns,
               int64_t ahead);
  const kern_fused_form *forms; /* [TD_DTYPE_COUNT] */
} kern_fused_level;

/* A value as functions without vectors read it: elements of its type (of a BOOL 32 bits) behind one another, `step` 1,
 * or one for all, `step` 0. */
typedef struct kern_fused_source {
  const void *at;
  int64_t step;
} kern_fused_source;
/* out[0 .. n) = the function of scalar.def on operands of type `from`, with numbers p; `to`: the result's type. Any
 * function that takes `from`. Part of what generated code is given. */
void kern_fused_apply(uint32_t function, uint32_t from, uint32_t to, const double *p, void *out,
                      const kern_fused_source *in, int64_t n);
/* *total = the elements of x, of a type that is not F32, and *total itself; or, where x is NULL, what they begin with,
 * of any type.
 */
void kern_fused_combine(uint32_t combine, uint32_t type, void *total, const kern_fused_source *x, int64_t n);
/* What the scan `op` gives for the elements of x, where *total is what stands in front of them (behind them, where it
 * runs back), and is given what they make of it. out may be x. */
void kern_fused_scan(const base_program_op *op, void *total, const kern_fused_source *x, void *out, int64_t n);

/* Runs the program in the call's attribute 0 with the level's interpreter; with `code` (may be NULL) where the
 * operands, as they come, fit what it was made for. Where an operand is gathered from outside of its axis the error's
 * offset is the op of the program that loads it. */
td_status kern_fused_run(const base_call *call, const kern_fused_level *level, const kern_fused_code *code);
/* ---- chains: programs at the end of an epilogue (epilogue.h), on tiles that a product walks ---- */

/* Reads and verifies a chain: base_program_read, and the rules of epilogue.h. NULL: fine; else what is wrong. */
const char *kern_chain_read(const int64_t *words, uint32_t count, bool front, base_program *p);
/* The chain in the last of the call's attributes, in the call's scratch; *chain NULL: there is none. Operands are those
 * that the call has last. With the call's `code` where the operands, as they come, fit what it was made for. Of a
 * chain in front tiles are rows of operand 0, all columns of each. */
td_status kern_chain_of(const base_call *call, const kern_fused_level *level, kern_chain **chain);

/* Rows row, row + row_step, ... of the output, of each the columns from `column` on. */
typedef struct kern_chain_tile {
  float *sums; /* of the first row and column, also where results go; of a chain in front those alone */
  int64_t pitch;
  int64_t row, row_step, rows, column, columns;
} kern_chain_tile;
/* One thread at a time. */
void kern_chain_run(kern_chain *chain, const kern_chain_tile *tile);

/* The widest level whose needs lie in `isa`. */
const kern_fused_level *kern_fused_level_of(uint32_t isa);
#endif
