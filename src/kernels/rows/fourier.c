/* fourier.c -- see rows.h: how a transform is done, and its table. */
#include "kernels/rows/rows.h"

#include <math.h>
#include <string.h>

#define TURN 6.28318530717958647692

/* ---- in double ---- */

kern_fourier_plain kern_fourier_open(int64_t n, bool inverse, kern_complex *room) {
  kern_fourier_plain t = {.n = n, .turn = room, .in = room + n, .out = room + 2 * n, .column = room + 3 * n};
  for (int64_t k = 0; k < n; k++) {
    const double angle = (inverse ? TURN : -TURN) * (double)k / (double)n;
    t.turn[k] = (kern_complex){cos(angle), sin(angle)};
  }
  return t;
}

static int64_t least_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; p++)
    if (n % p == 0) return p;
  return n;
}

/* out[k] = sum of in[i * step] * turn[i * k * (N / n)] for a part of n elements, n * step = N. The depth is that of n's
 * factorisation, at most 62. */
static void run_part(const kern_fourier_plain *t, const kern_complex *in, int64_t step, int64_t n, kern_complex *out) {
  if (n == 1) {
    out[0] = in[0];
    return;
  }
  int64_t p = least_factor(n), m = n / p;
  for (int64_t r = 0; r < p; r++) run_part(t, in + r * step, step * p, m, out + r * m);
  for (int64_t k = 0; k < m; k++) {
    for (int64_t r = 0; r < p; r++) t->column[r] = out[r * m + k];
    for (int64_t q = 0; q < p; q++) {
      kern_complex sum = {0, 0};
      int64_t at = 0, advance = (k + q * m) * step % t->n;
      for (int64_t r = 0; r < p; r++) {
        kern_complex c = t->column[r], w = t->turn[at];
        sum.re += c.re * w.re - c.im * w.im;
        sum.im += c.re * w.im + c.im * w.re;
        at = (at + advance) % t->n;
      }
      out[k + q * m] = sum;
    }
  }
}

void kern_fourier_run(const kern_fourier_plain *t) { run_part(t, t->in, 1, t->n, t->out); }

/* ---- how it is done ---- */

static int64_t largest_factor(int64_t n) {
  while (n > 1) {
    const int64_t p = least_factor(n);
    if (p == n) return p;
    n /= p;
  }
  return 1;
}

/* The least length of a convolution of at least n elements that takes passes of 2, 3, 4 and 5. */
static int64_t smooth_length(int64_t n) {
  int64_t best = INT64_MAX;
  static const int64_t odd[] = {1, 3, 5, 9, 15};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    int64_t length = odd[i];
    while (length < n) length *= 2;
    if (length < best) best = length;
  }
  return best;
}

static void add_radix(kern_fourier_line *l, int64_t radix) {
  l->radix[l->count++] = (uint8_t)radix;
  l->points *= radix;
}

/* Factors of n, odd ones first, then 2 where it is left over, then 4. */
static kern_fourier_line factors_of(int64_t n) {
  kern_fourier_line l = {.points = 1};
  for (int64_t p = 3; p <= KERN_FOURIER_RADIX; p += 2)
    for (; n % p == 0; n /= p) add_radix(&l, p);
  bool odd_power = false;
  for (int64_t rest = n; rest > 1; rest /= 2) odd_power = !odd_power;
  if (odd_power) add_radix(&l, 2), n /= 2;
  for (; n > 1; n /= 4) add_radix(&l, 4);
  return l;
}

/* The factors dealt out to two lines, so that their lengths are near each other. */
static void deal(const kern_fourier_line *all, kern_fourier_line *lines) {
  for (int i = 0; i < 2; i++) lines[i] = (kern_fourier_line){.points = 1};
  for (uint32_t k = 0; k < all->count; k++) add_radix(&lines[lines[1].points < lines[0].points], all->radix[k]);
}

static int64_t line_floats(const kern_fourier_line *l) {
  int64_t floats = 0, n = l->points;
  for (uint32_t k = 0; k < l->count; k++) {
    const int64_t r = l->radix[k];
    n /= r;
    floats += 2 * (r % 2 ? r : 0) + 2 * n * (r - 1);
  }
  return floats;
}

/* Room for `floats` behind what is in the table. */
static int64_t take(kern_fourier *f, int64_t floats) {
  const int64_t at = f->count;
  f->count += floats;
  return at;
}

kern_fourier kern_fourier_of(int64_t n, bool half) {
  kern_fourier f = {.n = n, .half = half, .points = half ? n / 2 : n};
  f.chirp = largest_factor(f.points) > KERN_FOURIER_RADIX;
  f.length = f.chirp ? smooth_length(2 * f.points - 1) : f.points;
  f.matrix = f.length >= KERN_FOURIER_LONG;
  const kern_fourier_line all = factors_of(f.length);
  if (f.matrix) deal(&all, f.line);
  else f.line[0] = all;
  if (half) f.half_table = take(&f, 2 * (f.points / 2 + 1));
  if (f.chirp) f.chirp_table = take(&f, 2 * f.points), f.spectrum = take(&f, 2 * f.length);
  if (f.matrix) f.matrix_table = take(&f, 2 * f.length);
  for (int i = 0; i <= f.matrix; i++) f.line[i].table = take(&f, line_floats(&f.line[i]));
  return f;
}

/* ---- tables ---- */

static void put_root(float *to, int64_t k, int64_t n, double scale) {
  const double angle = TURN * (double)(k % n) / (double)n;
  to[0] = (float)(scale * cos(angle));
  to[1] = (float)(-scale * sin(angle));
}

static void fill_line(const kern_fourier_line *l, float *to) {
  int64_t n = l->points;
  for (uint32_t k = 0; k < l->count; k++) {
    const int64_t r = l->radix[k], m = n / r;
    for (int64_t j = 0; r % 2 && j < r; j++, to += 2) put_root(to, j, r, 1);
    for (int64_t p = 0; p < m; p++)
      for (int64_t j = 1; j < r; j++, to += 2) put_root(to, p * j, n, 1);
    n = m;
  }
}

/* chirp[k] = exp(-pi i k^2 / points); the spectrum is that of its conjugate, k from -points to points, on a circle of
 * `length`, divided by that. */
static void fill_chirp(const kern_fourier *f, float *table, double *room) {
  float *chirp = table + f->chirp_table, *spectrum = table + f->spectrum;
  const kern_fourier_plain t = kern_fourier_open(f->length, false, (kern_complex *)room);
  memset(t.in, 0, (size_t)f->length * sizeof *t.in);
  for (int64_t k = 0; k < f->points; k++) {
    const double angle = TURN / 2 * (double)(k * k % (2 * f->points)) / (double)f->points;
    const kern_complex c = {cos(angle), sin(angle)};
    chirp[2 * k] = (float)c.re;
    chirp[2 * k + 1] = (float)-c.im;
    t.in[k] = t.in[(f->length - k) % f->length] = c;
  }
  kern_fourier_run(&t);
  for (int64_t k = 0; k < f->length; k++) {
    spectrum[2 * k] = (float)(t.out[k].re / (double)f->length);
    spectrum[2 * k + 1] = (float)(t.out[k].im / (double)f->length);
  }
}

/* A factor for element (k, j) of the matrix; real parts of a row, then its imaginary ones. */
static void fill_matrix(const kern_fourier *f, float *to) {
  const int64_t rows = f->line[0].points, columns = f->line[1].points;
  for (int64_t k = 0; k < rows; k++, to += 2 * columns)
    for (int64_t j = 0; j < columns; j++) {
      float root[2];
      put_root(root, k * j, f->length, 1);
      to[j] = root[0];
      to[columns + j] = root[1];
    }
}

int64_t kern_fourier_room(const kern_fourier *f) { return f->chirp ? 8 * f->length : 0; }

void kern_fourier_fill(const kern_fourier *f, float *table, double *room) {
  for (int64_t k = 0; f->half && k <= f->points / 2; k++) { /* -i / 2 times the root */
    float root[2], *to = table + f->half_table + 2 * k;
    put_root(root, k, f->n, 0.5);
    to[0] = root[1];
    to[1] = -root[0];
  }
  if (f->chirp) fill_chirp(f, table, room);
  if (f->matrix) fill_matrix(f, table + f->matrix_table);
  for (int i = 0; i <= f->matrix; i++) fill_line(&f->line[i], table + f->line[i].table);
}
