/* rows.h -- what kernels over rows and windows, the operators' references and passes have in common. Attributes are
 * those of kernels/attrs.h. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H
#include "base/base.h"
#include "kernels/attrs.h"

/* ---- windows ---- */

/* td::max_pool and td::avg_pool: attributes of KERN_WINDOW_LIST, then of KERN_POOL_LIST. */
enum { KERN_POOL_AXES = 3 };

/* One spatial dim: element k of output o's window is input element o * stride - begin + k * dilation. */
typedef struct kern_pool_axis {
  int64_t in, out, kernel, stride, begin, end, dilation;
} kern_pool_axis;
/* The axes of a call whose x is [N, spatial..., C]; missing ones in front are of size 1. axis: KERN_POOL_AXES. */
void kern_pool_axes_of(const base_call *call, kern_pool_axis *axis);
enum { KERN_POOL_TASK_ELEMENTS = 1 << 17 }; /* that a task of a pool reads */
/* Channels, and rows, of a task of `rows` rows of the result in all. Few rows for many workers are cut along the
 * channels, in blocks of *width. */
void kern_pool_tasks(const kern_pool_axis *axis, int64_t rows, int64_t channels, uint32_t workers, int64_t *width,
                     int64_t *each);

/* The elements [first, last) of a window that lie inside the input, from input element `start` on; `reach`: as many as
 * lie in input and padding. */
typedef struct kern_pool_span {
  int64_t first, last, start, reach;
} kern_pool_span;
kern_pool_span kern_pool_span_of(const kern_pool_axis *a, int64_t o);

/* ---- moments ---- */

/* td::group_moments: the first pixel of the plane that part `part` of `parts` has. Parts begin at multiples of up to 64
 * pixels where the plane has such, as kernels may take as many at once. */
static inline int64_t kern_moments_start(int64_t plane, int64_t parts, int64_t part) {
  const int64_t unit = base_min_i64(plane & -plane, 64);
  return unit > 0 ? plane / unit * part / parts * unit : 0;
}

/* ---- what stands between products of 8-bit integers ---- */

/* For the levels of rows/wide/between_i8.c and the references. Bytes are numbers of 0 to 255: those of i8 with `flip`,
 * 128, flipped. */

/* td::add_i8 and td::mul_i8. by: of a product by[0] alone; y_zero, least and most as the result's type has them. */
typedef struct kern_binary_i8 {
  bool adds;
  uint8_t flip[2], y_flip;
  float zero[2], by[2];
  int y_zero, least, most;
} kern_binary_i8;
kern_binary_i8 kern_binary_i8_of(const base_call *call, bool adds);

enum { KERN_BETWEEN_MOST = 64 }; /* elements that a level takes at once: an operand of one element is so many here */
/* n elements of operands that are step[k], 0 or 1, from one to the next. */
typedef void (*kern_binary_i8_row)(const kern_binary_i8 *b, const uint8_t *const *in, const int64_t *step, int64_t n,
                                   uint8_t *to);
td_status kern_run_binary_i8(const base_call *call, bool adds, kern_binary_i8_row row);

/* td::avg_pool_i8. */
typedef struct kern_mean_i8 {
  kern_pool_axis axis[KERN_POOL_AXES];
  int64_t channels;
  uint8_t flip, y_flip;
  int zero, y_zero;
  float x_scale, y_scale;
  bool count_padding;
} kern_mean_i8;
/* What a mean's sum is multiplied by: `count` elements that count. */
float kern_mean_i8_by(const kern_mean_i8 *m, int64_t count);
kern_mean_i8 kern_mean_i8_of(const base_call *call);
/* The mean over what a window sees of an image, of `n` channels from its element 0 on. */
typedef void (*kern_mean_i8_pixel)(const kern_mean_i8 *m, const uint8_t *image, const kern_pool_span *s, int64_t n,
                                   uint8_t *to);
/* `width`: calls are of so many channels, or of a multiple, but for the last ones. */
td_status kern_run_mean_i8(const base_call *call, int64_t width, kern_mean_i8_pixel pixel);

/* ---- Fourier transforms ---- */

/* td::dft and td::stft as their kernels, the pass that makes tables, and the references see them: operands, how a
 * transform of n elements is done, and its table of roots of unity.
 *
 * A transform of real numbers of even length is one of half as many complex ones (pairs of neighbours), put right by a
 * pass over its result. One of complex numbers is done by Stockham's passes, a prime factor or 4 at a time (Cooley and
 * Tukey 1965; no order of bits to mend), where all prime factors are at most KERN_FOURIER_RADIX; else as a convolution
 * with a chirp (Bluestein 1970), whose length has small factors. Long ones are matrices: transforms of columns, a
 * factor for each element, transforms of rows. All of it is told by the length alone. */
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
