/* tensor.h -- a view of elements in memory, and the values that steps pass: tensors, lists, nothing. */
#ifndef BASE_TENSOR_H
#define BASE_TENSOR_H
#include "base/dtype.h"

enum { BASE_MAX_RANK = TD_MAX_RANK };

/* Strides count elements and may be zero (broadcast) or negative. Tensors of packed types are always contiguous. `data`
 * may have any alignment: read it through the base_f32, base_i64, ... types of dtype.h or base_load_*. Scalars of the
 * host (int, float, bool) are tensors of rank 0 and dtype i64, f64, bool. */
typedef struct base_tensor {
  void *data;
  td_dtype dtype;
  int32_t rank;
  int64_t dims[BASE_MAX_RANK];
  int64_t strides[BASE_MAX_RANK];
} base_tensor;

typedef enum base_kind {
  BASE_NOTHING,
  BASE_TENSOR,
  /* Those that hold values, in `list`: */
  BASE_LIST,
  BASE_TUPLE,
  BASE_DICT,   /* key, value, key, value, ... */
  BASE_OBJECT, /* attributes, in the order of its class */
  BASE_FUTURE  /* one item once it is there */
} base_kind;
static inline bool base_holds_values(base_kind kind) { return kind >= BASE_LIST; }

typedef struct base_value base_value;
/* The array behind the items of lists that were made by appending to each other. */
typedef struct base_list_room {
  int64_t used, cap; /* items that some list shows; items there is memory for */
} base_list_room;
/* Immutable once made. Appending to the longest list of a room extends its array in place, and shares the items in
 * front. */
typedef struct base_list {
  base_value *items;
  int64_t count;
  base_list_room *room; /* NULL: the items are somebody else's; appending copies the array */
} base_list;

/* BASE_NOTHING is the empty optional. */
struct base_value {
  base_kind kind;
  base_tensor tensor;
  base_list list; /* of all that hold values */
};

int64_t base_tensor_numel(const base_tensor *t); /* dims were checked when the tensor was made */
size_t base_tensor_bytes(const base_tensor *t);  /* of its elements, as if contiguous */
bool base_tensor_contiguous(const base_tensor *t);
bool base_tensor_pitched(const base_tensor *t); /* rows of one pitch, each dense */
/* Row-major strides for rank and dims. */
void base_strides(int32_t rank, const int64_t *dims, int64_t *strides);
/* A contiguous view over `data`. */
base_tensor base_tensor_of(void *data, td_dtype dtype, int32_t rank, const int64_t *dims);
/* Element address for types of whole bytes. */
static inline void *base_at(const base_tensor *t, int64_t element) {
  return (char *)t->data + element * (base_dtype(t->dtype)->bits / 8);
}
/* Copies elements of `from` (any strides) into contiguous `to`; same dtype. Strings copy their slices. */
void base_tensor_pack(void *to, const base_tensor *from);
/* Copies elements of `from` into `to`, both of any strides, same dtype and dims. */
void base_tensor_copy(const base_tensor *to, const base_tensor *from);
/* "f32[1,3,224,224]" into `text`, at most `size` bytes; returns text. */
char *base_tensor_describe(const base_tensor *t, char *text, size_t size);

/* Walks the elements of up to BASE_WALK_MAX tensors of the same dims (strides may differ) in row-major order, giving
 * element offsets. Use: base_walk w; base_walk_start(&w, rank, dims, n, strides); do {... w.offset[k] ...} while
 * (base_walk_next(&w)); guarded by `if (w.count)`. The innermost dimension can be walked by the caller: see
 * base_walk_rows. */
enum { BASE_WALK_MAX = 6 };
typedef struct base_walk {
  int32_t rank, tensors;
  int64_t dims[BASE_MAX_RANK], index[BASE_MAX_RANK];
  int64_t strides[BASE_WALK_MAX][BASE_MAX_RANK];
  int64_t offset[BASE_WALK_MAX];
  int64_t count; /* elements (or rows) in all; 0: nothing to walk */
} base_walk;
void base_walk_start(base_walk *w, int32_t rank, const int64_t *dims, int32_t tensors, const int64_t *const *strides);
bool base_walk_next(base_walk *w); /* false after the last */
/* The same over rows: the last dimension is left to the caller (its length in *length, its strides in step[]). */
void base_walk_rows(base_walk *w, int32_t rank, const int64_t *dims, int32_t tensors, const int64_t *const *strides,
                    int64_t *length, int64_t *step);
#endif
