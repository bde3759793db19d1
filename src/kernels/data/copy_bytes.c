/* copy_bytes.c -- KERN_COPY and KERN_RESHAPE on 8 bits. A copy is rows along the last dimension and the dimensions
 * around it. Where the source is dense along another one, both are a transposition, in squares of bytes that vectors of
 * any CPU transpose; a few planes become pixels, the colours of a picture. */
#include "kernels/kernels_priv.h"
#include "kernels/data/move_priv.h"

#include <string.h>

enum { SIDE = 16, ACROSS = 64 /* columns of a line of the source: those that are in the cache are used */ };
enum { TASK_BYTES = 1 << 16 };

typedef uint8_t row16 __attribute__((vector_size(SIDE), aligned(1), may_alias));

/* Rows as columns. Row i and row i + 8 are interleaved, four times. */
static void transpose_square(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step) {
  row16 a[SIDE], b[SIDE];
  for (int i = 0; i < SIDE; i++) a[i] = *(const row16 *)(from + i * from_step);
  for (int stage = 0; stage < 4; stage++) {
    for (int i = 0; i < SIDE / 2; i++) {
      const row16 x = a[i], y = a[i + SIDE / 2];
      b[2 * i] = __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      b[2 * i + 1] = __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    memcpy(a, b, sizeof a);
  }
  for (int i = 0; i < SIDE; i++) *(row16 *)(to + i * to_step) = a[i];
}

/* to[i][k] = from[k][i], i < rows, k < length. */
static void transpose_bytes(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step, int64_t rows,
                            int64_t length) {
  for (int64_t first = 0; first < rows; first += ACROSS)
    for (int64_t k = 0; k < length; k += SIDE)
      for (int64_t i = first; i < base_min_i64(rows, first + ACROSS); i += SIDE) {
        uint8_t *at = to + i * to_step + k;
        const uint8_t *source = from + k * from_step + i;
        const int64_t high = base_min_i64(SIDE, rows - i), wide = base_min_i64(SIDE, length - k);
        if (high == SIDE && wide == SIDE) transpose_square(at, to_step, source, from_step);
        else
          for (int64_t r = 0; r < high; r++)
            for (int64_t c = 0; c < wide; c++) at[r * to_step + c] = source[c * from_step + r];
      }
}

/* Bytes of `colours` planes, `plane` apart, as pixels: a word at a time, of which the next pixel overwrites what is not
 * its own. */
static void take_pixels(uint8_t *to, const uint8_t *from, int64_t plane, int64_t colours, int64_t n) {
  const uint8_t *second = from + plane, *third = colours > 2 ? second + plane : second,
                *fourth = colours > 3 ? third + plane : third;
  for (int64_t i = 0; i + 1 < n; i++, to += colours) {
    const uint8_t word[] = {from[i], second[i], third[i], fourth[i]};
    memcpy(to, word, sizeof word);
  }
  for (int64_t c = 0; c < colours; c++) to[c] = from[c * plane + n - 1];
}

static void copy_row(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step, int64_t length) {
  if (to_step == 1 && from_step == 1) memcpy(to, from, (size_t)length);
  else
    for (int64_t i = 0; i < length; i++) to[i * to_step] = from[i * from_step];
}

/* A copy whose core is the last dimension and `across`, of `block` rows at a time; < 0: the last dimension alone. */
typedef struct job {
  kern_move move;
  int32_t across;
  bool transposes, pixels;
  int64_t block, blocks, tasks;
} job;

static job plan(const base_tensor *to, const base_tensor *from) {
  job j = {.move = kern_move_of(to, from), .across = -1, .block = 1, .blocks = 1};
  kern_move *m = &j.move;
  if (m->count == 0) return j;
  if (m->rank == 0) m->dims[0] = m->rank = 1; /* its steps are 0 */
  const int32_t last = m->rank - 1;
  for (int32_t i = 0; i < last && m->from_step[last] != 1; i++)
    if (m->from_step[i] == 1) j.across = i;
  j.transposes = j.across >= 0 && m->to_step[last] == 1;
  j.pixels = j.transposes && m->dims[last] >= 2 && m->dims[last] <= 4 && m->to_step[j.across] == m->dims[last];
  if (j.across < 0) j.across = last - 1;
  const int64_t length = m->dims[last], rows = j.across < 0 ? 1 : m->dims[j.across];
  j.block = base_min_i64(rows, ACROSS * base_ceil_div(base_max_i64(TASK_BYTES / length, 1), ACROSS));
  j.blocks = base_ceil_div(rows, j.block);
  j.tasks = m->count / length / rows * j.blocks;
  return j;
}

static void run_task(const job *j, int64_t task) {
  const kern_move *m = &j->move;
  const int32_t last = m->rank - 1;
  const int64_t length = m->dims[last], first = task % j->blocks * j->block;
  int64_t to_at = 0, from_at = 0, rest = task / j->blocks;
  for (int32_t i = last - 1; i >= 0; i--) {
    const int64_t at = i == j->across ? first : rest % m->dims[i];
    to_at += at * m->to_step[i];
    from_at += at * m->from_step[i];
    if (i != j->across) rest /= m->dims[i];
  }
  uint8_t *to = (uint8_t *)m->to + to_at;
  const uint8_t *from = (const uint8_t *)m->from + from_at;
  if (j->across < 0) {
    copy_row(to, m->to_step[last], from, m->from_step[last], length);
    return;
  }
  const int64_t rows = base_min_i64(j->block, m->dims[j->across] - first), step = m->to_step[j->across];
  if (j->pixels) take_pixels(to, from, m->from_step[last], length, rows);
  else if (j->transposes) transpose_bytes(to, step, from, m->from_step[last], rows, length);
  else
    for (int64_t i = 0; i < rows; i++)
      copy_row(to + i * step, m->to_step[last], from + i * m->from_step[j->across], m->from_step[last], length);
}

static td_status move(const base_call *call, const base_tensor *to, const base_tensor *from) {
  const job j = plan(to, from);
  for (int64_t t = base_call_first(call, j.tasks); t < j.tasks; t = base_call_next(call, t, j.tasks)) run_task(&j, t);
  return TD_OK;
}

td_status kern_copy_8(const base_call *call) { return move(call, base_out(call, 0), base_in(call, 0)); }

/* The elements in their order, whatever their dimensions: out[0], which is dense, seen with those of the operand. */
td_status kern_reshape_8(const base_call *call) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  if (base_tensor_numel(in) != base_tensor_numel(out))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "a view of another number of elements");
  const base_tensor same = base_tensor_of(out->data, out->dtype, in->rank, in->dims);
  return move(call, &same, in);
}
