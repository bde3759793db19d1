/* fourier.h -- td::dft and td::stft as their kernels, the pass that makes tables, and the references see them: operands
 * and attributes, how a transform of n elements is done, and its table of roots of unity.
 *
 * A transform of real numbers of even length is one of half as many complex ones (pairs of neighbours), put right by a
 * pass over its result. One of complex numbers is done by Stockham's passes, a prime factor or 4 at a time (Cooley and
 * Tukey 1965; no order of bits to mend), where all prime factors are at most KERN_FOURIER_RADIX; else as a convolution
 * with a chirp (Bluestein 1970), whose length has small factors. Long ones are matrices: transforms of columns, a
 * factor for each element, transforms of rows. All of it is told by the length alone. */
#ifndef KERNELS_FOURIER_H
#define KERNELS_FOURIER_H
#include "kernels/attrs.h"
#include "base/base.h"

enum { KERN_DFT_X, KERN_DFT_LENGTH, KERN_DFT_AXIS, KERN_DFT_TABLE };
enum { KERN_STFT_SIGNAL, KERN_STFT_STEP, KERN_STFT_WINDOW, KERN_STFT_LENGTH, KERN_STFT_TABLE };

enum {
  KERN_FOURIER_RADIX = 31,  /* largest prime that is summed directly */
  KERN_FOURIER_PASSES = 32, /* no length has more factors */
  KERN_FOURIER_LONG = 4096, /* from so many elements on a transform is a matrix */
  KERN_FOURIER_MOST = 1 << 26
};

/* Passes over `points` complex numbers: radix[0] first. */
typedef struct kern_fourier_line {
  int64_t points;
  uint32_t count;
  uint8_t radix[KERN_FOURIER_PASSES];
  int64_t table; /* where its floats begin: of each pass the roots of its radix (odd ones alone), then the factors */
} kern_fourier_line;

typedef struct kern_fourier {
  int64_t n, points; /* elements; complex numbers that are transformed: n, or half of it */
  bool half, chirp;  /* real neighbours are one complex number; Bluestein's way */
  int64_t length;    /* complex numbers that passes go over: points, or the convolution's */
  bool matrix;       /* length = line[0].points * line[1].points: columns, then rows; else line[0] is all */
  kern_fourier_line line[2];
  int64_t half_table, chirp_table, spectrum, matrix_table; /* where their floats begin */
  int64_t count;                                           /* floats of the table */
} kern_fourier;

/* Is the transform one of real numbers of even length, of which half as many complex ones are made? `parts`: of an
 * operand's element. */
static inline bool kern_fourier_halves(int64_t n, int64_t parts, bool inverse, bool onesided) {
  return n % 2 == 0 && (inverse ? onesided : parts == 1);
}
/* How n elements are transformed, 1 <= n <= KERN_FOURIER_MOST; `half`: kern_fourier_halves. */
kern_fourier kern_fourier_of(int64_t n, bool half);
/* Doubles of room that filling the table needs. */
int64_t kern_fourier_room(const kern_fourier *f);
/* The table of f->count floats. */
void kern_fourier_fill(const kern_fourier *f, float *table, double *room);

typedef struct kern_complex {
  double re, im;
} kern_complex;
/* A plain transform of n elements in double, by recursion over n's prime factors. turn[k] = exp(-+ 2 pi i k / n). */
typedef struct kern_fourier_plain {
  int64_t n;
  kern_complex *turn, *in, *out, *column; /* [n] each, parts of what it was opened with */
} kern_fourier_plain;
/* `room`: 4 n numbers, which are not cleared. */
kern_fourier_plain kern_fourier_open(int64_t n, bool inverse, kern_complex *room);
/* t->out from t->in. */
void kern_fourier_run(const kern_fourier_plain *t);
#endif
