/* lower_view_priv.h -- what the lowerings of views ask of their call: operand 0 is the tensor that is viewed. */
#ifndef IMPORT_ATEN_LOWER_VIEW_PRIV_H
#define IMPORT_ATEN_LOWER_VIEW_PRIV_H
#include "import/aten/aten_priv.h"

static inline const aten_value *self(const aten_args *c) { return &c->args[0]; }
static inline ir_value read(aten_args *c) { return aten_read(c->a, self(c)); }
/* Rank as the program sees it. */
static inline int32_t rank_of(aten_args *c) {
  return aten_rank(c->a, read(c)) - (self(c)->u.tensor->is_complex ? 1 : 0);
}
static inline bool is_complex(const aten_args *c) { return self(c)->u.tensor->is_complex; }
static inline ir_value i64(aten_args *c, int64_t v) { return ir_build_ints(c->b, &v, 1); }
/* The size of an axis; refused where it is open. */
int64_t aten_known_size(aten_args *c, int64_t dim);
#endif
