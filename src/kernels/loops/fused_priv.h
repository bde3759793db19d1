/* fused_priv.h -- what the files of fused loops share: the space of a call, and its tiles. */
#ifndef KERNELS_FUSED_PRIV_H
#define KERNELS_FUSED_PRIV_H
#include "kernels/loops/loops.h"
#include "kernels/kernels_priv.h"

enum { COLUMNS = BASE_PROGRAM_OPERANDS + BASE_PROGRAM_OUTS }; /* of strides: those of operands, then those of outputs */
enum { UNIT = 16, WIDEST = 8 /* bytes: of a copy, of an element */ };

typedef struct kern_fused_space {
  const base_call *call;
  const kern_fused_level *level;
  const base_program *p;
  const base_tensor *in[BASE_PROGRAM_OPERANDS];
  int32_t row_axes, behind; /* of the program; of a chain 1 at least, and 0 */
  bool in_order;            /* rows are numbered as those of the result */
  int32_t rank;             /* of the planes */
  int64_t planes, rows, length;
  int64_t pitch[COLUMNS];
  int32_t row_rank;    /* dimensions of a row, innermost first; at least 1 */
  uint64_t scalars;    /* bit k: operand k does not change along a row, and bodies know */
  uint64_t direct;     /* bit k: bodies read operand k as it is; of a program that is not across rows no scalar */
  uint64_t transposed; /* bit k: operand k, elements of 4 bytes, is dense from row to row */
  uint64_t native;     /* bit k: operand k is of the element type that bodies read */
  uint64_t tellers;    /* bit k: operand k holds the indices of a gathered one; no body sees it */
  uint64_t found; /* bit k: operand k is gathered, all rows of a tile from one place, where bodies read it as it is */
  bool gathers;   /* some operand is gathered */
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  base_type type[COLUMNS];
  td_dtype out_dtype[BASE_PROGRAM_OUTS];
  bool out_row[BASE_PROGRAM_OUTS], drops[BASE_PROGRAM_OUTS]; /* one number a row, and without the row's axes */
  bool aside[BASE_PROGRAM_OUTS]; /* made in a piece of memory first: of another element type, or nobody wants it */
  bool piecewise;                /* something has to be brought into form */
  bool passes;                   /* a dense operand goes as it is into an output of another element type */
  /* Of the planes, and of a row; as many as there are, and nothing behind them. The last: calls clear the rest. */
  int64_t dims[BASE_MAX_RANK], stride[BASE_MAX_RANK][COLUMNS];
  int64_t row_dims[BASE_MAX_RANK], step[BASE_MAX_RANK][COLUMNS];
} kern_fused_space;

typedef struct kern_fused_job {
  kern_fused_body body;
  kern_fused_rows rows;
  int64_t tile_rows, tile_length, wide; /* rows of a tile, elements of them, and from one to the next in `in`, `out` */
  td_status status;                     /* of what is gathered */
  float *sums; /* of a chain: operand 0 and output 0 of the tile, and elements from row to row; else NULL */
  int64_t sums_pitch;
  bool front;                                               /* of a chain: operand 0 is read where it lies */
  char *in[BASE_PROGRAM_OPERANDS], *out[BASE_PROGRAM_OUTS]; /* tiles */
  kern_fused_space s;
} kern_fused_job;

static inline size_t size_of(td_dtype dtype) { return base_dtype(dtype)->bits / 8u; }
/* Bytes of an element of column `k` as bodies see it. */
static inline size_t body_size(const kern_fused_space *s, uint32_t k) { return size_of(base_type_dtype(s->type[k])); }
/* Operand `k` is moved as it is, in elements of 4 bytes. */
static inline bool transposes(const kern_fused_space *s, uint32_t k) {
  return s->native >> k & 1 && size_of(s->in[k]->dtype) == 4;
}

/* Are all elements of a row of column `k` evenly spaced, step[0][k] from one to the next? */
static inline bool is_even(const kern_fused_space *s, uint32_t k) {
  int64_t run = s->row_dims[0];
  int32_t i = 1;
  while (i < s->row_rank && s->step[i][k] == run * s->step[0][k]) run *= s->row_dims[i++];
  return i == s->row_rank;
}

/* ---- fused_forms.c ---- */

/* Is there a way to read elements of the type, and to write them? */
bool kern_fused_reads(td_dtype dtype);
bool kern_fused_writes(td_dtype dtype);
/* Where operand `k` is read along its gathered axis, by the index at element `at` of its operand of indices: an
 * element offset. An index outside of the axis is an error of the call, and gives element 0. */
int64_t kern_fused_told(kern_fused_job *j, uint32_t k, int64_t at);
/* A tile of operand `k`, whose first row begins at element offsets[k]: elements [from, from + n) of each of its rows,
 * into j->in[k]. */
void kern_fused_bring(kern_fused_job *j, uint32_t k, const int64_t *offsets, int64_t rows, int64_t from, int64_t n);
/* Elements [from, from + n) of a row of output column `k`, which begins at element `offset`, from `piece`. */
void kern_fused_put(const kern_fused_space *s, uint32_t k, int64_t offset, int64_t from, int64_t n, char *piece);
/* The same of a program across rows: all elements of the rows, each with those of the other rows beside it. */
void kern_fused_bring_across(kern_fused_job *j, uint32_t k, int64_t offset, int64_t rows);
void kern_fused_put_across(kern_fused_job *j, uint32_t k, int64_t offset, int64_t rows);
#endif
