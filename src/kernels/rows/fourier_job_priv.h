/* fourier_job_priv.h -- a call of td::dft or td::stft as its kernels run it: where the rows are that are transformed.
 */
#ifndef KERNELS_FOURIER_JOB_PRIV_H
#define KERNELS_FOURIER_JOB_PRIV_H
#include "kernels/rows/rows.h"

enum { KERN_FOURIER_LANES = 16 /* of no level are there more */ };

/* One side of a row in memory. Steps count floats; `parts`: floats of an element, the second `part` behind the first.
 */
typedef struct kern_fourier_side {
  float *data;                          /* of an operand only read */
  int64_t element, part, parts, floats; /* floats: how many of the row there are */
  int64_t step[BASE_MAX_RANK];          /* from row to row */
  int64_t at[KERN_FOURIER_LANES];       /* of the rows in hand; of lanes without one that of the first */
} kern_fourier_side;

typedef struct kern_fourier_job {
  kern_fourier f;
  const float *table;
  bool real;                       /* numbers of one part are transformed */
  bool inverse, onesided, extends; /* extends: half a spectrum is known, all of it wanted */
  kern_fourier_side x, y;
  int32_t rank; /* dimensions that count rows */
  int64_t dims[BASE_MAX_RANK], rows, tasks, task_rows;
  const float *window; /* of every element; NULL: none */
  int64_t window_step;
  int64_t lanes;               /* those of the level; 1: a row at a time, as a matrix */
  float *buffer[2], *block[2]; /* scratch: elements of [2][lanes]; of a matrix, a line's of [2][those of the level] */
} kern_fourier_job;

/* Reads and checks the call; tasks 0: there is nothing to do. */
td_status kern_fourier_dft(const base_call *call, int64_t level_lanes, kern_fourier_job *j);
td_status kern_fourier_stft(const base_call *call, int64_t level_lanes, kern_fourier_job *j);
/* Sets where rows first to first + n stand, n at least 1. */
void kern_fourier_place(kern_fourier_job *j, int64_t first, int64_t n);
#endif
