/* lower_loss.c -- losses, said in the calls that PyTorch makes of them: so they promote, broadcast and wrap as those
 * do, and what PyTorch writes in place keeps its type. */
#include "import/aten/aten_priv.h"

#include <math.h>

#define CALL ATEN_CALL

static aten_value reduced(aten_args *c, aten_value v, uint32_t i) {
  const int64_t how = aten_get_int(c, i);
  return how == 0 || ir_build_failed(c->b) ? v : CALL(c, how == 1 ? "aten::mean" : "aten::sum", v);
}
/* `v` where the target is (`op`) `number`, else 0 */
static aten_value only_where(aten_args *c, const char *op, aten_value target, int64_t number, aten_value v) {
  return CALL(c, "aten::where", CALL(c, op, target, aten_int(number)), v, aten_int(0));
}
static aten_value times_weight(aten_args *c, aten_value y, uint32_t i) {
  return aten_has(c, i) ? CALL(c, "aten::mul_", y, c->args[i]) : y;
}

/* binary_cross_entropy(self, target, weight?, reduction): logarithms no less than -100 */
aten_value aten_lower_bce(aten_args *c) {
  const aten_value x = c->args[0], t = c->args[1], one = aten_int(1), least = aten_int(-100);
  const aten_value yes = CALL(c, "aten::clamp_min", CALL(c, "aten::log", x), least),
                   no = CALL(c, "aten::clamp_min", CALL(c, "aten::log", CALL(c, "aten::rsub", x, one)), least);
  aten_value y =
      CALL(c, "aten::add", CALL(c, "aten::mul", t, yes), CALL(c, "aten::mul", CALL(c, "aten::rsub", t, one), no));
  return reduced(c, times_weight(c, CALL(c, "aten::neg", y), 2), 3);
}
/* binary_cross_entropy_with_logits(self, target, weight?, pos_weight?, reduction): (1 - t) x + softplus(-x), of the
 * target's type */
aten_value aten_lower_bce_logits(aten_args *c) {
  const aten_value x = c->args[0], t = c->args[1];
  aten_value soft = CALL(c, "aten::softplus", CALL(c, "aten::neg", x));
  if (aten_has(c, 3)) {
    const aten_value more = CALL(c, "aten::mul", CALL(c, "aten::sub", c->args[3], aten_int(1)), t);
    soft = CALL(c, "aten::mul_", soft, CALL(c, "aten::add", more, aten_int(1)));
  }
  aten_value y = CALL(c, "aten::mul_", CALL(c, "aten::rsub", t, aten_int(1)), x);
  return reduced(c, times_weight(c, CALL(c, "aten::add_", y, soft), 2), 4);
}
/* soft_margin_loss(self, target, reduction): log(1 + exp(-t x)), of x's type */
aten_value aten_lower_soft_margin(aten_args *c) {
  const aten_value y = CALL(c, "aten::mul_", CALL(c, "aten::neg", c->args[0]), c->args[1]);
  return reduced(c, CALL(c, "aten::log1p", CALL(c, "aten::exp", y)), 2);
}
/* margin_ranking_loss(x1, x2, target, margin, reduction) */
aten_value aten_lower_margin_ranking(aten_args *c) {
  const aten_value y =
      CALL(c, "aten::mul", CALL(c, "aten::neg", c->args[2]), CALL(c, "aten::sub", c->args[0], c->args[1]));
  return reduced(c, CALL(c, "aten::clamp_min", CALL(c, "aten::add", y, c->args[3]), aten_int(0)), 4);
}
/* kl_div(self, target, reduction, log_target): t (log t - x), where t log t is 0 at 0 */
aten_value aten_lower_kl_div(aten_args *c) {
  const aten_value x = c->args[0], t = c->args[1];
  const bool is_log = aten_get_bool(c, 3);
  const aten_value y = is_log ? CALL(c, "aten::mul", CALL(c, "aten::exp", t), CALL(c, "aten::sub", t, x))
                              : CALL(c, "aten::sub", CALL(c, "aten::xlogy", t, t), CALL(c, "aten::mul", t, x));
  return reduced(c, y, 2);
}
/* poisson_nll_loss(input, target, log_input, full, eps, reduction) */
aten_value aten_lower_poisson_loss(aten_args *c) {
  const aten_value x = c->args[0], t = c->args[1];
  const bool is_log = aten_get_bool(c, 2);
  const aten_value log = is_log ? x : CALL(c, "aten::log", CALL(c, "aten::add", x, c->args[4]));
  aten_value y = CALL(c, "aten::sub", is_log ? CALL(c, "aten::exp", x) : x, CALL(c, "aten::mul", t, log));
  if (aten_get_bool(c, 3)) { /* Stirling's formula for what is left out, where the target is above 1 */
    aten_value whole = CALL(c, "aten::sub", CALL(c, "aten::mul", t, CALL(c, "aten::log", t)), t),
               half = CALL(c, "aten::log", CALL(c, "aten::mul", t, aten_float(6.283185307179586)));
    whole = CALL(c, "aten::add", whole, CALL(c, "aten::mul", half, aten_float(0.5)));
    y = CALL(c, "aten::add_", y, only_where(c, "aten::gt", t, 1, whole));
  }
  return reduced(c, y, 5);
}
/* hinge_embedding_loss(self, target, margin, reduction) */
aten_value aten_lower_hinge_embedding(aten_args *c) {
  const aten_value x = c->args[0], t = c->args[1];
  const double margin = aten_get_float(c, 2);
  const bool whole = !base_is_float(aten_dtype_in(c, 0)) && fabs(margin) < 0x1p62; /* of self's type, it is cut */
  const aten_value from = CALL(c, "aten::rsub", x, whole ? aten_int((int64_t)margin) : c->args[2]);
  const aten_value far = CALL(c, "aten::clamp_min", from, aten_int(0));
  return reduced(c, CALL(c, "aten::add", only_where(c, "aten::ne", t, 1, far), only_where(c, "aten::ne", t, -1, x)), 3);
}
/* triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction) */
aten_value aten_lower_triplet_margin(aten_args *c) {
  const aten_value *v = c->args;
  const aten_value near = CALL(c, "aten::pairwise_distance", v[0], v[1], v[4], v[5]);
  aten_value far = CALL(c, "aten::pairwise_distance", v[0], v[2], v[4], v[5]);
  if (aten_get_bool(c, 6))
    far = CALL(c, "aten::minimum", far, CALL(c, "aten::pairwise_distance", v[1], v[2], v[4], v[5]));
  const aten_value y = CALL(c, "aten::add", CALL(c, "aten::sub", near, far), v[3]);
  return reduced(c, CALL(c, "aten::clamp_min", y, aten_int(0)), 7);
}
static aten_value last_sum(aten_args *c, aten_value x, aten_value y) {
  const aten_value last = aten_int(-1);
  return CALL(c, "aten::sum", CALL(c, "aten::mul", x, y), aten_list_of(c->a, &last, 1));
}
/* cosine_embedding_loss(input1, input2, target, margin, reduction) */
aten_value aten_lower_cosine_embedding(aten_args *c) {
  const aten_value x = c->args[0], y = c->args[1], t = c->args[2], least = aten_float(1e-12);
  const aten_value both = CALL(c, "aten::mul", CALL(c, "aten::add", last_sum(c, x, x), least),
                               CALL(c, "aten::add", last_sum(c, y, y), least));
  const aten_value cosine = CALL(c, "aten::div", last_sum(c, x, y), CALL(c, "aten::sqrt", both));
  const aten_value near = CALL(c, "aten::rsub", cosine, aten_int(1)),
                   far = CALL(c, "aten::clamp_min", CALL(c, "aten::sub", cosine, c->args[3]), aten_int(0));
  return reduced(c, CALL(c, "aten::add", only_where(c, "aten::eq", t, 1, near), only_where(c, "aten::eq", t, -1, far)),
                 4);
}
