/* pad.c -- see data.h. */
#include "kernels/data/data.h"
#include "base/size.h"

static int64_t wrap(int64_t at, int64_t size) { return at % size < 0 ? at % size + size : at % size; }
static int64_t edge(int64_t at, int64_t size) { return at < 0 ? 0 : size - 1; }
/* The border elements are not repeated, and a border is narrower than what it mirrors (check_borders). */
static int64_t reflect(int64_t at, int64_t size) {
  (void)size;
  return at < 0 ? -at : 2 * (size - 1) - at;
}

const kern_pad kern_pad_constant = {"aten::constant_pad_nd", 3, NULL};
const kern_pad kern_pad_reflection = {"aten::reflection_pad", 2, reflect};
const kern_pad kern_pad_replication = {"aten::replication_pad", 2, edge};
const kern_pad kern_pad_circular = {"aten::circular_pad", 2, wrap};

static int64_t int_at(const base_tensor *t, int64_t i) {
  return base_load_i64(t->dtype, t->data, t->rank ? i * t->strides[0] : 0);
}

/* Elements in front per axis. */
static td_status read_begins(const base_call *call, const kern_pad *pad, int64_t *begin) {
  const base_tensor *x = base_in(call, KERN_PAD_X), *out = base_out(call, 0), *pads = base_in(call, KERN_PAD_PADS),
                    *axes = base_in(call, pad->axes);
  int64_t expected[BASE_MAX_RANK], all = pads->rank <= 1 ? base_tensor_numel(pads) : -1, count = all / 2;
  if (all < 0 || all % 2 || (axes && axes->rank > 1) || count != (axes ? base_tensor_numel(axes) : x->rank))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%s: the pads must be two per axis", pad->op);
  for (int32_t i = 0; i < x->rank; i++) {
    begin[i] = 0;
    expected[i] = x->dims[i];
  }
  for (int64_t k = 0; k < count; k++) {
    int64_t axis = !axes ? k : int_at(axes, k), front = int_at(pads, k), behind = int_at(pads, count + k);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank)
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%s: axis %lld does not fit", pad->op, (long long)axis);
    begin[axis] = front;
    if (!base_add_i64(expected[axis], front, &expected[axis]) || !base_add_i64(expected[axis], behind, &expected[axis]))
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%s: the pads are too large", pad->op);
  }
  for (int32_t i = 0; i < x->rank; i++)
    if (expected[i] != out->dims[i])
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%s: axis %d becomes %lld where %lld was expected",
                       pad->op, i, (long long)expected[i], (long long)out->dims[i]);
  return TD_OK;
}

/* A mirror shows what there is once: no more than all but one of the elements. */
static td_status check_borders(const base_call *call, const kern_pad *pad, int32_t axis, int64_t front) {
  const int64_t size = base_in(call, KERN_PAD_X)->dims[axis], length = base_out(call, 0)->dims[axis];
  const int64_t behind = length - size - front, border = base_max_i64(front, behind);
  if (size == 0 && pad->map && length)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%s: axis %d is empty: there is nothing to repeat", pad->op,
                     axis);
  if (pad->map != reflect || border < size || border <= 0) return TD_OK;
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                   "%s: a border of %lld mirrors axis %d, which has %lld elements; at most %lld can be mirrored",
                   pad->op, (long long)border, axis, (long long)size, (long long)(size - 1));
}

td_status kern_pad_read(const base_call *call, const kern_pad *pad, kern_pad_tables *t) {
  const base_tensor *x = base_in(call, KERN_PAD_X), *out = base_out(call, 0);
  int64_t begin[BASE_MAX_RANK];
  TRY(read_begins(call, pad, begin));
  for (int32_t d = 0; d < x->rank; d++) {
    int64_t *to = base_call_scratch(call, (size_t)out->dims[d], sizeof *to), size = x->dims[d], length = out->dims[d];
    if (!to) return base_no_memory(call->err, "scratch");
    t->table[d] = to;
    t->first[d] = base_min_i64(base_max_i64(begin[d], 0), length);
    t->last[d] = base_max_i64(t->first[d], base_min_i64(length, size + begin[d]));
    TRY(check_borders(call, pad, d, begin[d]));
    for (int64_t i = 0; i < length; i++) {
      bool inside = i >= t->first[d] && i < t->last[d];
      to[i] = inside ? i - begin[d] : pad->map ? pad->map(i - begin[d], size) : -1;
    }
  }
  return TD_OK;
}
