/* Every operator over its generated cases: what inference says is what the reference gives, with numbers and with
 * symbols; strides, alignment, the memory of a plan, and whether it knows the sizes, make no difference. */
/* ctest: slow */
/* ctest parts: 4 */
#include "test.h"

#include <math.h>
#include "compile/compile.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "ops/results.h"
#include "runtime/runtime.h"
#include "sys/sys.h"

enum { MAX_OUTPUTS = 8 };

typedef struct subject {
  const ir_op *op;
  uint32_t number;
  ir_case c;
  const base_attrs *attrs;
  base_value in[IR_CASE_OPERANDS], out[MAX_OUTPUTS];
  const base_value *at[IR_CASE_OPERANDS];
  uint32_t out_count;
  bool constants;   /* operands behind the first one are constants of the graph */
  bool open;        /* sizes of inputs are open in the graph */
  uint32_t kernels; /* plans of the operator's cases in which a kernel runs it */
  td_error err;
} subject;

static const char *name_of(const subject *s) {
  return base_arena_format(s->c.arena, "%s case %u", s->op->name, s->number);
}

#define EXPECT(condition, s, what) \
  if (!(condition)) fail_msg("%s: %s: %s", name_of(s), what, (s)->err.text)

static const ir_opset *set;

static bool make_case(subject *s, base_arena *arena) {
  s->c = (ir_case){.arena = arena};
  if (!ops_cases(s->op->id)(&s->c, s->number)) return false;
  s->err.text[0] = 0;
  EXPECT(ir_make_attrs(arena, s->op, s->c.args, s->c.arg_count, &s->attrs, &s->err) == TD_OK, s, "attributes");
  for (uint32_t i = 0; i < s->c.in_count; i++) {
    s->in[i] = (base_value){.kind = BASE_TENSOR, .tensor = s->c.in[i]};
    s->at[i] = s->c.absent[i] ? NULL : &s->in[i];
  }
  s->out_count = results_of(s->op, s->attrs);
  return true;
}

static void run_reference(subject *s, uint32_t isa, base_value *out) {
  (void)isa;
  td_status status = ir_evaluate(s->op, s->attrs, s->at, s->c.in_count, s->c.arena, out, s->out_count, &s->err);
  EXPECT(status == TD_OK, s, "the reference fails");
}

static void evaluate(subject *s, base_value *out) { run_reference(s, 0, out); }

static bool same_strings(const base_tensor *x, const base_tensor *y) {
  const td_string *a = x->data, *b = y->data;
  for (int64_t i = 0; i < base_tensor_numel(x); i++)
    if (a[i].length != b[i].length || (a[i].length && memcmp(a[i].at, b[i].at, a[i].length) != 0)) return false;
  return true;
}

/* Element by element: the unused bits of a packed tensor's last byte mean nothing. */
static bool same_elements(const base_tensor *x, const base_tensor *y) {
  if (x->dtype == TD_STRING) return same_strings(x, y);
  if (base_dtype(x->dtype)->bits >= 8) return memcmp(x->data, y->data, base_tensor_bytes(x)) == 0;
  for (int64_t i = 0; i < base_tensor_numel(x); i++)
    if (base_load_f64(x->dtype, x->data, i) != base_load_f64(y->dtype, y->data, i)) return false;
  return true;
}

static bool close_elements(const base_tensor *x, const base_tensor *y, double atol, double rtol) {
  for (int64_t i = 0; i < base_tensor_numel(x); i++) {
    double a = base_load_f64(x->dtype, x->data, i), b = base_load_f64(y->dtype, y->data, i);
    if (a == b || (isnan(a) && isnan(b))) continue;
    if (!isfinite(a) || !(fabs(a - b) <= atol + rtol * fabs(a))) return false;
  }
  return true;
}

/* CLOSELY: kernels may add in another order, within the operator's tolerances, which bound the error of f32; what is
 * narrower is computed in f32 and rounded once, to one of the neighbours of the exact result. Loops of f64 compute in
 * double, as references do, in another order; whole numbers are exact. */
typedef enum agreement { EXACTLY, BUT_NAN, CLOSELY } agreement;

static bool rounds(const subject *s) {
  bool does = false;
  for (uint32_t i = 0; i < s->c.in_count; i++) does |= !s->c.absent[i] && s->c.in[i].dtype == TD_BF16;
  for (uint32_t i = 0; i < s->c.arg_count; i++) does |= strcmp(s->c.args[i].name, "depth") == 0;
  return does;
}

static bool agree(const subject *s, const base_tensor *x, const base_tensor *y, agreement how) {
  const ir_op *op = s->op;
  const double step = x->dtype == TD_F16 ? 0x1p-10 : x->dtype == TD_BF16 ? 0x1p-7 : 0;
  if (how == CLOSELY && step > 0) return close_elements(x, y, fmax(0x1p-24, (double)op->atol), step);
  if (how == CLOSELY && x->dtype == TD_F64) return close_elements(x, y, 1e-12, 1e-12);
  if (how == EXACTLY || (how == CLOSELY && x->dtype != TD_F32)) return same_elements(x, y);
  const float atol = op->rounded > 0 && rounds(s) ? op->rounded : op->atol;
  return how == BUT_NAN ? close_elements(x, y, 0, 0) : close_elements(x, y, (double)atol, (double)op->rtol);
}

static void expect_equal(subject *s, const base_value *a, const base_value *b, agreement how, const char *what) {
  EXPECT(a->kind == b->kind, s, what);
  if (base_holds_values(a->kind)) {
    EXPECT(a->list.count == b->list.count, s, what);
    for (int64_t i = 0; i < a->list.count; i++) expect_equal(s, &a->list.items[i], &b->list.items[i], how, what);
  }
  if (a->kind != BASE_TENSOR) return;
  const base_tensor *x = &a->tensor, *y = &b->tensor;
  EXPECT(x->dtype == y->dtype && x->rank == y->rank, s, what);
  for (int32_t i = 0; i < x->rank; i++) EXPECT(x->dims[i] == y->dims[i], s, what);
  EXPECT(base_tensor_contiguous(x) && base_tensor_contiguous(y), s, "an output that is not dense");
  EXPECT(agree(s, x, y, how), s, what);
}

/* The same elements in memory with gaps, one byte off any alignment. */
static void spread(subject *s, uint32_t i) {
  base_tensor *t = &s->in[i].tensor;
  size_t bits = base_dtype(t->dtype)->bits;
  if (bits < 8 || t->dtype == TD_STRING) return;
  int64_t dims[BASE_MAX_RANK];
  for (int32_t k = 0; k < t->rank; k++) dims[k] = t->dims[k] + 1;
  base_tensor wide = base_tensor_of(NULL, t->dtype, t->rank, dims);
  size_t bytes = base_tensor_bytes(&wide) + 1;
  wide.data = (char *)base_arena_alloc(s->c.arena, bytes + 1) + 1;
  memset(wide.data, 0x55, bytes - 1);
  memcpy(wide.dims, t->dims, sizeof wide.dims);
  base_tensor_copy(&wide, t);
  *t = wide;
}

static void strides_and_alignment_do_not_matter(subject *s) {
  base_value again[MAX_OUTPUTS], kept[IR_CASE_OPERANDS];
  memcpy(kept, s->in, sizeof kept);
  for (uint32_t i = 0; i < s->c.in_count; i++)
    if (s->at[i]) spread(s, i);
  evaluate(s, again);
  for (uint32_t i = 0; i < s->out_count; i++)
    expect_equal(s, &s->out[i], &again[i], EXACTLY, "strided operands give other results");
  memcpy(s->in, kept, sizeof kept);
}

/* With a symbol for every dimension inference may know less, never something else. */
static void symbols_agree(subject *s) {
  base_dims dims = {.arena = s->c.arena};
  ir_info in[IR_CASE_OPERANDS] = {0}, out[MAX_OUTPUTS] = {0};
  const ir_info *at[IR_CASE_OPERANDS] = {0};
  int64_t symbols[1024];
  for (size_t i = 0; i < 1024; i++) symbols[i] = -1;
  for (uint32_t i = 0; i < s->c.in_count; i++) {
    if (!s->at[i]) continue;
    base_dim d[BASE_MAX_RANK];
    const base_tensor *t = &s->in[i].tensor;
    for (int32_t k = 0; k < t->rank; k++) {
      d[k] = base_dim_symbol(&dims, base_arena_format(s->c.arena, "in%u_%d", i, k));
      symbols[dims.symbols.count - 1] = t->dims[k];
    }
    bool small_ints = !base_is_float(t->dtype) && t->dtype != TD_STRING && base_tensor_numel(t) <= 8 && t->rank <= 1;
    for (int32_t k = 0; small_ints && k < t->rank; k++) d[k] = t->dims[k];
    in[i].type = ir_tensor(t->dtype, t->rank, d);
    in[i].constant = small_ints ? t : NULL;
    at[i] = &in[i];
  }
  ir_infer ctx = {.op = s->op,
                  .attrs = s->attrs,
                  .in = at,
                  .in_count = s->c.in_count,
                  .out = out,
                  .out_count = s->out_count,
                  .dims = &dims,
                  .arena = s->c.arena,
                  .err = &s->err};
  td_status status = s->op->infer(&ctx);
  EXPECT(status == TD_OK, s, "inference with symbols fails");
  for (uint32_t i = 0; i < s->out_count; i++) {
    const base_tensor *t = &s->out[i].tensor;
    if (s->out[i].kind != BASE_TENSOR || out[i].type.rank == IR_UNRANKED) continue;
    EXPECT(out[i].type.dtype == t->dtype && out[i].type.rank == t->rank, s, "symbols give another type");
    for (int32_t k = 0; k < t->rank; k++) {
      int64_t value;
      bool known = base_dim_eval(&dims, out[i].type.dims[k], symbols, &value);
      EXPECT(!known || value == t->dims[k], s, "symbols give another size");
      EXPECT(known || base_dim_from_data(&dims, out[i].type.dims[k]), s, "a size that cannot be evaluated");
    }
  }
}

static td_status build_graph(subject *s, ir_graph *g) {
  ir_value in[IR_CASE_OPERANDS] = {{0}};
  for (uint32_t i = 0; i < s->c.in_count; i++) {
    if (!s->at[i]) continue;
    const base_tensor *t = &s->in[i].tensor;
    base_dim d[BASE_MAX_RANK];
    for (int32_t k = 0; k < t->rank; k++)
      d[k] = s->open ? base_dim_symbol(&g->dims, base_arena_format(s->c.arena, "in%u_%d", i, k)) : t->dims[k];
    ir_type type = ir_tensor(t->dtype, t->rank, d);
    if (s->constants && i > 0) TRY(ir_add_constant(g, t, NULL, &in[i], &s->err));
    else TRY(ir_add_input(g, &type, base_arena_format(s->c.arena, "in%u", i), IR_NO_VALUE, &in[i], &s->err));
  }
  ir_new_node spec = {.op = s->op,
                      .in = in,
                      .in_count = s->c.in_count,
                      .out_count = s->out_count,
                      .args = s->c.args,
                      .arg_count = s->c.arg_count};
  ir_node node;
  TRY(ir_add_node(g, g->top, &spec, &node, NULL, &s->err));
  for (uint32_t i = 0; i < s->out_count; i++)
    TRY(ir_add_output(g, ir_node_of(g, node)->out[i], base_arena_format(s->c.arena, "out%u", i), &s->err));
  return ir_verify(g, &s->err);
}

static td_status set_inputs(subject *s, run_session *session) {
  uint32_t input = 0;
  for (uint32_t i = 0; i < s->c.in_count; i++)
    if (s->at[i] && !(s->constants && i > 0)) TRY(run_set_input(session, input++, &s->in[i], &s->err));
  return TD_OK;
}

static td_status run_plan(subject *s, const plan_exe *plan, run_session **session) {
  TRY(run_session_new(plan, &base_libc_allocator, NULL, session, &s->err));
  TRY(set_inputs(s, *session));
  TRY(run_session_run(*session, &s->err));
  return run_session_run(*session, &s->err); /* twice: nothing of the first run may show */
}

/* Does a kernel run the operator? */
static bool has_kernel(const subject *s, const plan_exe *plan) {
  for (uint32_t i = 0; i < plan->here.links.count; i++)
    if (plan->here.links.at[i].op == s->op && plan->here.links.at[i].run != s->op->reference) return true;
  return false;
}

/* Is the plan the operator's plain loop alone? */
static bool is_plain(const subject *s, const plan_exe *plan) {
  return plan->here.links.count == 1 && plan->here.links.at[0].op == s->op &&
         plan->here.links.at[0].run == s->op->reference;
}

static void plan_agrees(subject *s, const plan_exe *plan, agreement how) {
  run_session *session = NULL;
  EXPECT(run_plan(s, plan, &session) == TD_OK, s, "a plan does not run");
  for (uint32_t i = 0; i < s->out_count; i++) {
    const base_value *value;
    EXPECT(run_output(session, i, &value, &s->err) == TD_OK, s, "no output");
    expect_equal(s, &s->out[i], value, how, "a plan gives other results");
  }
  run_session_free(session);
}

/* False: of a plan for kernels that is the plain loop again, which the other backends have run, nothing is run. */
static bool plans_agree(subject *s, const char *backend, uint32_t isa, agreement how) {
  ir_graph *g = ir_graph_new(&base_libc_allocator, set);
  plan_exe *plan = NULL;
  td_status status = build_graph(s, g);
  if (status == TD_OK)
    status = compile_graph(g, &(compile_setting){.backend = compile_find_backend(backend), .isa = isa},
                           &base_libc_allocator, NULL, &plan, &s->err);
  EXPECT(status == TD_OK, s, backend);
  s->kernels += has_kernel(s, plan);
  const bool runs = strcmp(backend, "native") != 0 || !is_plain(s, plan);
  if (runs) plan_agrees(s, plan, how);
  plan_free(plan);
  ir_graph_free(g);
  return runs;
}

/* Copies of what the kernels give. */
static void run_native(subject *s, uint32_t isa, base_value *out) {
  ir_graph *g = ir_graph_new(&base_libc_allocator, set);
  plan_exe *plan = NULL;
  run_session *session = NULL;
  td_status status = build_graph(s, g);
  if (status == TD_OK)
    status = compile_graph(g, &(compile_setting){.backend = compile_find_backend("native"), .isa = isa},
                           &base_libc_allocator, NULL, &plan, &s->err);
  if (status == TD_OK) status = run_plan(s, plan, &session);
  EXPECT(status == TD_OK, s, "native");
  for (uint32_t i = 0; i < s->out_count; i++) {
    const base_value *value;
    EXPECT(run_output(session, i, &value, &s->err) == TD_OK && value->kind == BASE_TENSOR, s, "no output");
    out[i] = *value;
    out[i].tensor.data = base_arena_copy(s->c.arena, value->tensor.data, base_tensor_bytes(&value->tensor));
  }
  run_session_free(session);
  plan_free(plan);
  ir_graph_free(g);
}

/* ---- open sizes ---- */

/* Has the case an operand with such a size? All of them become `to`, which is smaller: elements are enough. */
static bool resize(const subject *from, int64_t size, int64_t to, subject *s) {
  bool any = false;
  *s = *from;
  for (uint32_t i = 0; i < s->c.in_count; i++) {
    base_tensor *t = &s->in[i].tensor;
    int64_t dims[BASE_MAX_RANK];
    if (s->at[i]) s->at[i] = &s->in[i];
    for (int32_t k = 0; k < t->rank; k++) {
      any |= s->at[i] && t->dims[k] == size;
      dims[k] = t->dims[k] == size ? to : t->dims[k];
    }
    if (s->at[i]) *t = base_tensor_of(t->data, t->dtype, t->rank, dims);
  }
  return any;
}

/* Where no element is to be made, a kernel need not look at what else is wrong. */
static bool is_empty(run_session *session) {
  const base_value *value;
  td_error unused;
  return run_output(session, 0, &value, &unused) == TD_OK && value->kind == BASE_TENSOR &&
         base_tensor_numel(&value->tensor) == 0;
}

/* What the reference gives for these sizes the plan gives, and what that refuses it refuses. */
static void run_open(subject *s, run_session *session) {
  td_error refused;
  const bool valid =
      ir_evaluate(s->op, s->attrs, s->at, s->c.in_count, s->c.arena, s->out, s->out_count, &refused) == TD_OK;
  td_status status = set_inputs(s, session);
  if (status == TD_OK) status = run_session_run(session, &s->err);
  if (status == TD_OK && !valid && is_empty(session)) return;
  EXPECT((status == TD_OK) == valid, s, valid ? "a plan for open sizes does not run" : refused.text);
  EXPECT(valid || s->err.text[0], s, "no word about what is wrong");
  for (uint32_t i = 0; i < s->out_count && valid; i++) {
    const base_value *value;
    EXPECT(run_output(session, i, &value, &s->err) == TD_OK, s, "no output");
    expect_equal(s, &s->out[i], value, CLOSELY, "a plan for open sizes gives other results");
  }
}

/* One plan for all sizes: those of the case, and with each of them 0 and 1. */
static void open_sizes_agree(subject *s) {
  sys_machine machine;
  plan_exe *plan = NULL;
  run_session *session = NULL;
  ir_graph *g = ir_graph_new(&base_libc_allocator, set);
  sys_cpu_read(&machine);
  s->open = true;
  td_status status = build_graph(s, g);
  const compile_setting setting = {.backend = compile_find_backend("native"), .isa = machine.isa | BASE_ISA_VECTOR};
  if (status == TD_OK) status = compile_graph(g, &setting, &base_libc_allocator, NULL, &plan, &s->err);
  if (status == TD_OK) status = run_session_new(plan, &base_libc_allocator, NULL, &session, &s->err);
  EXPECT(status == TD_OK, s, "open sizes");
  for (int64_t to = 0; to < 2; to++)
    for (int64_t size = to + 1; size < 40; size++) {
      subject other;
      if (resize(s, size, to, &other)) run_open(&other, session);
    }
  subject same = *s;
  run_open(&same, session);
  run_session_free(session);
  plan_free(plan);
  ir_graph_free(g);
  s->open = false;
}

/* ---- samples ---- */

static bool splits(const base_tensor *t) { return base_is_float(t->dtype) && base_dtype(t->dtype)->bits >= 8; }

/* Is operand `i` one whose samples the operator reads one by one, as its descriptor says? */
static bool holds_samples(const subject *s, uint32_t i) {
  const base_tensor *t = &s->in[i].tensor, *out = &s->out[0].tensor;
  const bool elementwise = s->op->flags & IR_OP_ELEMENTWISE;
  if (!s->at[i] || !(elementwise || s->op->by_sample >> (i < 7 ? i : 7) & 1)) return false;
  if (!splits(t) || t->rank < 1) return false;
  const bool repeats =
      i > 0 && !elementwise && t->dims[0] > 1 && out->dims[0] % t->dims[0] == 0; /* a mask of windows */
  return (t->dims[0] == out->dims[0] || repeats) &&
         (t->rank == out->rank || (!elementwise && (i == 0 || t->rank > out->rank)));
}

/* Views that keep the order of elements keep samples where there are as many: their operands name sizes of all. */
static bool works_by_sample(const subject *s) {
  const base_tensor *out = &s->out[0].tensor;
  if (s->op->flags & IR_OP_VIEW_DENSE) return false;
  if (s->out[0].kind != BASE_TENSOR || !s->c.in_count || !s->at[0] || s->in[0].tensor.rank < 1) return false;
  if (!(s->op->flags & IR_OP_ELEMENTWISE) && !holds_samples(s, 0)) return false;
  for (uint32_t i = 0; i < s->c.in_count; i++)
    if (s->at[i] && s->op->flags & IR_OP_ELEMENTWISE && !splits(&s->in[i].tensor)) return false;
  const base_tensor *operands[8] = {NULL};
  for (uint32_t i = 0; i < s->c.in_count && i < 8; i++)
    operands[i] = s->at[i] && s->in[i].kind == BASE_TENSOR ? &s->in[i].tensor : NULL;
  const ir_samples_query query = {.attrs = s->attrs,
                                  .rank = s->in[0].tensor.rank,
                                  .count = s->c.in_count < 8 ? s->c.in_count : 8,
                                  .constants = operands};
  if (s->op->keeps_samples && !s->op->keeps_samples(&query)) return false;
  for (uint32_t i = 0; i < s->out_count; i++)
    if (!splits(&s->out[i].tensor)) return false;
  return out->rank >= 2 && out->dims[0] >= 2;
}

static base_tensor sample_of(const base_tensor *t, int64_t sample) {
  base_tensor one = *t;
  one.dims[0] = 1;
  if (base_tensor_numel(t)) one.data = base_at(&one, sample * one.strides[0]);
  return one;
}

typedef void (*run_fn)(subject *s, uint32_t isa, base_value *out);

/* Alone a sample comes out as it does among others, to the bit, but for which NaN it is. */
static void samples_stand_apart(subject *s, run_fn run, uint32_t isa) {
  base_value whole[MAX_OUTPUTS], alone[MAX_OUTPUTS];
  if (!works_by_sample(s)) return;
  run(s, isa, whole);
  for (int64_t sample = 0; sample < s->out[0].tensor.dims[0]; sample++) {
    subject one = *s;
    for (uint32_t i = 0; i < s->c.in_count; i++) {
      if (s->at[i]) one.at[i] = &one.in[i];
      if (holds_samples(s, i))
        one.in[i].tensor = sample_of(&s->in[i].tensor, i ? sample % s->in[i].tensor.dims[0] : sample);
    }
    run(&one, isa, alone);
    for (uint32_t i = 0; i < s->out_count; i++) {
      const base_value want = {.kind = BASE_TENSOR, .tensor = sample_of(&whole[i].tensor, sample)};
      expect_equal(&one, &want, &alone[i], BUT_NAN, "a sample alone gives other results");
    }
  }
}

/* The kernels of every level that this machine has. Where nobody wants the other outputs there may be another kernel.
 */
static void kernels_agree(subject *s) {
  sys_machine machine;
  uint32_t count, outputs = s->out_count;
  sys_cpu_read(&machine);
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = 0; i < count; i++) {
    if (base_isa_lacks(machine.isa, levels[i].isa)) continue;
    bool runs = plans_agree(s, "native", levels[i].isa, CLOSELY);
    s->out_count = 1;
    if (outputs > 1) runs |= plans_agree(s, "native", levels[i].isa, CLOSELY);
    if (runs) samples_stand_apart(s, run_native, levels[i].isa);
    s->out_count = outputs;
  }
}

static void one_operator(void **state) {
  subject s = {.op = *state};
  for (;; s.number++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    if (!make_case(&s, arena)) {
      base_arena_free(arena);
      break;
    }
    evaluate(&s, s.out);
    strides_and_alignment_do_not_matter(&s);
    symbols_agree(&s);
    open_sizes_agree(&s);
    samples_stand_apart(&s, run_reference, 0);
    plans_agree(&s, "eager", 0, EXACTLY);
    plans_agree(&s, "aot_eager", 0, EXACTLY);
    kernels_agree(&s);
    /* Some kernels want to know a number. */
    s.constants = s.op->kernel && s.c.in_count == 2 && s.at[1] && base_tensor_numel(&s.in[1].tensor) == 1;
    if (s.constants) kernels_agree(&s);
    s.constants = false;
    base_arena_free(arena);
  }
  if (!s.number) fail_msg("%s has no cases", s.op->name);
  /* What runs as a view, or needs constants, is tested elsewhere. */
  if (s.op->kernel && !s.kernels && !(s.op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE)))
    fail_msg("%s: no case was run by a kernel", s.op->name);
}

/* The table itself: names are unique and sorted, every operator can run, attributes have names. */
static void the_table_is_sound(void **state) {
  (void)state;
  for (uint32_t o = 0; o < set->count; o++) {
    const ir_op *op = set->ops[o];
    if (!op) fail_msg("operator %u of operators.def has no descriptor", o);
    assert_ptr_equal(ir_opset_at(set, o + 1), op);
    if (o) assert_true(strcmp(set->ops[o - 1]->name, op->name) < 0);
    assert_ptr_equal(ir_opset_find(set, op->name), op);
    bool region = op->flags & IR_OP_REGION;
    if (!region && (!op->infer || !op->reference)) fail_msg("%s has no inference or no reference", op->name);
    if ((op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE)) && !op->view) fail_msg("%s has no view", op->name);
    if (!region && !(op->flags & IR_OP_HOST) && !ops_cases(op->id)) fail_msg("%s has no test cases", op->name);
    if (op->keeps_samples && !op->by_sample) fail_msg("%s keeps samples of no operand", op->name);
    assert_true(op->attr_count <= IR_NODE_ARGS);
    for (uint32_t i = 0; i < op->attr_count; i++) assert_non_null(op->attrs[i].name);
  }
}

/* PART OF: every OF-th operator alone, from the PART-th on. */
int main(int argc, char **argv) {
  const unsigned long part = argc > 2 ? strtoul(argv[1], NULL, 10) : 1, of = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
  if (!part || part > of) return 2;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  set = ops_set(arena);
  struct CMUnitTest *tests = base_new(arena, struct CMUnitTest, set->count + 1);
  size_t count = 0;
  if (part == 1) tests[count++] = (struct CMUnitTest)cmocka_unit_test(the_table_is_sound);
  for (uint32_t o = 0; o < set->count; o++)
    if (ops_cases(set->ops[o]->id) && o % of == part - 1)
      tests[count++] = (struct CMUnitTest){set->ops[o]->name, one_operator, NULL, NULL, (void *)(uintptr_t)set->ops[o]};
  int failed = _cmocka_run_group_tests("operators", tests, count, NULL, NULL);
  base_arena_free(arena);
  return failed;
}
