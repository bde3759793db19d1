/* tfidf.c -- td::tfidf(x [c] or [n, c], integers): how often each n-gram of a pool occurs in a row, skips allowed.
 *
 * ONNX TfIdfVectorizer. The pool holds all 1-grams, then all 2-grams, ...; counts[k] is where the (k+1)-grams begin. An
 * n-gram with skip s is x[i], x[i+s+1], x[i+2(s+1)], ...; its number in the pool says which output it counts for.
 *
 * y[row, number of g] = count of g in the row (TF), its weight where count > 0 (IDF), weight count (TFIDF). */
#include "base/size.h"
#include "ops/common/ops_priv.h"

#include <string.h>

enum { MAX_GRAM, MAX_SKIP, MIN_GRAM, MODE, COUNTS, INDEXES, POOL, WEIGHTS };
static const ir_attr attrs[] = {ATTR_INT("max_gram_length", 1),
                                ATTR_INT("max_skip_count", 0),
                                ATTR_INT("min_gram_length", 1),
                                ATTR_STR("mode", "TF"),
                                ATTR_INTS("ngram_counts"),
                                ATTR_INTS("ngram_indexes"),
                                ATTR_INTS("pool"),
                                ATTR_FLOATS("weights")};

static int64_t output_count(const base_attrs *a) {
  uint32_t count;
  const int64_t *indexes = base_attr_ints(a, INDEXES, &count);
  int64_t most = -1;
  for (uint32_t i = 0; i < count; i++)
    if (indexes[i] > most) most = indexes[i];
  return most + 1;
}

/* The attributes describe one table: checked here, relied on below. */
static td_status check_pool(ir_infer *ctx) {
  uint32_t counts_n, indexes_n, pool_n, weights_n, grams = 0;
  const int64_t *counts = base_attr_ints(ctx->attrs, COUNTS, &counts_n),
                *indexes = base_attr_ints(ctx->attrs, INDEXES, &indexes_n);
  base_attr_ints(ctx->attrs, POOL, &pool_n);
  base_attr_floats(ctx->attrs, WEIGHTS, &weights_n);
  for (uint32_t n = 1; n <= counts_n; n++) {
    int64_t end = n < counts_n ? counts[n] : pool_n;
    if (counts[n - 1] < 0 || end < counts[n - 1] || end > pool_n || (end - counts[n - 1]) % n != 0)
      return ir_infer_fail(ctx, "ngram_counts does not divide the pool into %u-grams", n);
    grams += (uint32_t)((end - counts[n - 1]) / n);
  }
  if (grams != indexes_n || (weights_n && weights_n != indexes_n))
    return ir_infer_fail(ctx, "the pool has %u n-grams, and %u indexes or %u weights", grams, indexes_n, weights_n);
  for (uint32_t i = 0; i < indexes_n; i++)
    if (indexes[i] < 0 || indexes[i] > INT32_MAX)
      return ir_infer_fail(ctx, "index %lld is out of range", (long long)indexes[i]);
  return TD_OK;
}

static td_status infer(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  TRY(check_pool(ctx));
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, TD_F32);
  if (x->rank != 1 && x->rank != 2) return ir_infer_fail(ctx, "an operand of rank %d; 1 or 2 is meaningful", x->rank);
  base_dim dims[] = {x->dims[0], output_count(ctx->attrs)};
  return ir_out(ctx, 0, TD_F32, x->rank, x->rank == 1 ? dims + 1 : dims);
}

static bool matches(const int64_t *gram, int64_t n, const base_i64 *row, int64_t step) {
  for (int64_t k = 0; k < n; k++)
    if (gram[k] != row[k * step]) return false;
  return true;
}

/* Occurrences of one n-gram in a row. */
static int64_t occurrences(const int64_t *gram, int64_t n, const base_i64 *row, int64_t length, int64_t max_skip) {
  int64_t found = 0;
  for (int64_t skip = 0; skip <= (n == 1 ? 0 : max_skip); skip++)
    for (int64_t i = 0; i + (n - 1) * (skip + 1) < length; i++) found += matches(gram, n, row + i, skip + 1);
  return found;
}

static void count_row(const base_call *call, const base_i64 *row, int64_t length, float *out) {
  uint32_t counts_n, pool_n, indexes_n, weights_n, number = 0;
  const int64_t *counts = base_attr_ints(call->attrs, COUNTS, &counts_n),
                *pool = base_attr_ints(call->attrs, POOL, &pool_n);
  const int64_t *indexes = base_attr_ints(call->attrs, INDEXES, &indexes_n);
  const double *weights = base_attr_floats(call->attrs, WEIGHTS, &weights_n);
  bool counted = strcmp(base_attr_str(call->attrs, MODE), "IDF") != 0,
       weighted = strcmp(base_attr_str(call->attrs, MODE), "TF") != 0;
  int64_t least = base_attr_int(call->attrs, MIN_GRAM), most = base_attr_int(call->attrs, MAX_GRAM);
  int64_t skip = base_min_i64(base_attr_int(call->attrs, MAX_SKIP), length);
  for (uint32_t n = 1; n <= counts_n; n++) {
    int64_t end = n < counts_n ? counts[n] : pool_n;
    for (int64_t at = counts[n - 1]; at < end; at += n, number++) {
      int64_t found = n >= least && n <= most ? occurrences(pool + at, n, row, length, skip) : 0;
      double weight = weighted && weights_n ? weights[number] : 1;
      if (found) out[indexes[number]] = (float)((counted ? (double)found : 1) * weight);
    }
  }
}

static td_status reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  const base_i64 *data = ops_dense_i64(call, 0);
  if (!data) return base_no_memory(call->err, "scratch");
  int64_t length = x->dims[x->rank - 1], rows = x->rank == 2 ? x->dims[0] : 1, outputs = output_count(call->attrs);
  float *out = base_out(call, 0)->data;
  if (rows > 0 && outputs > 0) memset(out, 0, (size_t)(rows * outputs) * sizeof *out);
  for (int64_t r = 0; r < rows && outputs; r++) count_row(call, data + r * length, length, out + r * outputs);
  return TD_OK;
}

static bool cases(ir_case *c, uint32_t number) {
  static const int64_t counts[] = {0, 2}, indexes[] = {0, 2, 1}, pool[] = {1, 3, 0, 2};
  static const double weights[] = {0.5, 2, 3};
  static const char *const modes[] = {"TF", "IDF", "TFIDF"};
  if (number >= 6) return false;
  ops_case_arg(c, ARG_INT("max_gram_length", 2));
  ops_case_arg(c, ARG_INT("max_skip_count", number % 3));
  ops_case_arg(c, ARG_STR("mode", modes[number % 3]));
  ops_case_arg(c, ARG_INTS("ngram_counts", counts, 2));
  ops_case_arg(c, ARG_INTS("ngram_indexes", indexes, 3));
  ops_case_arg(c, ARG_INTS("pool", pool, 4));
  ops_case_arg(c, ARG_FLOATS("weights", weights, 3));
  return number < 3 ? ops_case_in(c, TD_I64, OPS_DIMS(2, 7), OPS_POSITIVE, number)
                    : ops_case_in(c, TD_I32, OPS_DIMS(number - 3), OPS_INDEX, 0);
}

static const ir_alias aliases[] = {{"onnx", "TfIdfVectorizer", 9, "pool_int64s=pool"}};

OPS_DECLARE(tfidf);
const ir_op ops_tfidf[] = {
    {.id = OPERATOR(td, tfidf),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = attrs,
     .attr_count = OPS_COUNT(attrs),
     .infer = infer,
     .reference = reference,
     .aliases = aliases,
     .alias_count = OPS_COUNT(aliases)},
};
OPS_TABLE(tfidf);
OPS_CASES(tfidf) = {
    {OP_td_tfidf, cases},
    {0},
};
