/* order.c -- KERN_ORDER: aten::topk and aten::sort of dense f32. A few of many go through a heap of as many keys; all,
 * or a good part of them, through a radix sort. */
#include "kernels/data/data.h"
#include "kernels/kernels_priv.h"

enum { DIGIT_BITS = 8, DIGITS = 32 / DIGIT_BITS, BUCKETS = 1 << DIGIT_BITS };
enum { FEW = 8 /* a heap, where this many times what is wanted is less than there is */, TASK_ELEMENTS = 1 << 13 };

/* ---- keys ---- */

/* By one digit of the values, keeping the order of equal ones. */
static void sort_by_digit(const uint64_t *from, uint64_t *to, int64_t count, int shift) {
  int64_t start[BUCKETS] = {0}, sum = 0;
  for (int64_t i = 0; i < count; i++) start[from[i] >> shift & (BUCKETS - 1)]++;
  for (int b = 0; b < BUCKETS; b++) {
    int64_t here = start[b];
    start[b] = sum;
    sum += here;
  }
  for (int64_t i = 0; i < count; i++) to[start[from[i] >> shift & (BUCKETS - 1)]++] = from[i];
}

void kern_order_sort(uint64_t *keys, uint64_t *spare, int64_t count) {
  for (int d = 0; d < DIGITS; d += 2) {
    sort_by_digit(keys, spare, count, 32 + d * DIGIT_BITS);
    sort_by_digit(spare, keys, count, 32 + (d + 1) * DIGIT_BITS);
  }
}

/* Puts `key` at `at` of a heap whose largest key is in front, and below what is larger. */
static void sink(uint64_t *heap, int64_t count, int64_t at, uint64_t key) {
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    child += child + 1 < count && heap[child + 1] > heap[child];
    if (heap[child] <= key) break;
    heap[at] = heap[child];
  }
  heap[at] = key;
}

/* ---- rows ---- */

typedef struct job {
  const float *x;
  float *values;      /* NULL: not wanted */
  int64_t *positions; /* likewise */
  int64_t outer, size, inner, wanted;
  bool largest;
  uint64_t *keys, *spare;
} job;

/* The first keys of a row, in order, at the front of j->keys. */
static void order_few(const job *j, const float *row) {
  uint64_t *heap = j->keys;
  for (int64_t i = 0; i < j->wanted; i++) heap[i] = kern_order_key(row[i * j->inner], (uint32_t)i, j->largest);
  for (int64_t i = j->wanted / 2; i-- > 0;) sink(heap, j->wanted, i, heap[i]);
  for (int64_t i = j->wanted; i < j->size; i++) {
    const uint64_t key = kern_order_key(row[i * j->inner], (uint32_t)i, j->largest);
    if (key < heap[0]) sink(heap, j->wanted, 0, key);
  }
  for (int64_t left = j->wanted; --left > 0;) {
    const uint64_t last = heap[left];
    heap[left] = heap[0];
    sink(heap, left, 0, last);
  }
}

static void order_row(const job *j, int64_t unit) {
  const int64_t o = unit / j->inner, i = unit % j->inner;
  const float *row = j->x + o * j->size * j->inner + i;
  if (j->spare) {
    for (int64_t k = 0; k < j->size; k++) j->keys[k] = kern_order_key(row[k * j->inner], (uint32_t)k, j->largest);
    kern_order_sort(j->keys, j->spare, j->size);
  } else order_few(j, row);
  for (int64_t k = 0; k < j->wanted; k++) {
    const int64_t to = (o * j->wanted + k) * j->inner + i, place = kern_order_place(j->keys[k]);
    if (j->values) j->values[to] = row[place * j->inner];
    if (j->positions) j->positions[to] = place;
  }
}

static td_status describe(const base_call *call, job *j) {
  const base_tensor *x = base_in(call, 0), *values = base_out(call, 0), *positions = base_out(call, 1);
  const base_tensor *out = values ? values : positions;
  int64_t axis = base_attr_int(call->attrs, KERN_ORDER_DIM);
  if (axis < 0) axis += x->rank;
  *j = (job){.x = x->data,
             .values = values ? values->data : NULL,
             .positions = positions ? positions->data : NULL,
             .outer = 1,
             .size = 1,
             .inner = 1,
             .wanted = !out      ? 0
                       : x->rank ? out->dims[axis]
                                 : 1,
             .largest = base_attr_int(call->attrs, KERN_ORDER_LARGEST) != 0};
  for (int32_t i = 0; i < x->rank; i++) *(i == axis ? &j->size : i < axis ? &j->outer : &j->inner) *= x->dims[i];
  if (j->wanted < 0 || j->wanted > j->size || j->size > UINT32_MAX)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the first %lld of %lld elements", (long long)j->wanted,
                     (long long)j->size);
  const bool all = j->wanted > j->size / FEW;
  j->keys = base_call_scratch(call, (size_t)(all ? j->size : j->wanted), sizeof *j->keys);
  if (all) j->spare = base_call_scratch(call, (size_t)j->size, sizeof *j->spare);
  return j->keys && (j->spare || !all) ? TD_OK : base_no_memory(call->err, "scratch");
}

td_status kern_order(const base_call *call) {
  job j = {0};
  const td_status status = describe(call, &j);
  if (status != TD_OK || j.wanted == 0) return status;
  const int64_t units = j.outer * j.inner, each = base_max_i64(1, TASK_ELEMENTS / j.size);
  const int64_t total = (units + each - 1) / each;
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t u = task * each; u < base_min_i64(units, (task + 1) * each); u++) order_row(&j, u);
  return TD_OK;
}
