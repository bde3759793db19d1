/* emit.c -- C text of programs. A kernel is one function over rows; a stage of the program is a loop over the row,
 * whole vectors first, then what is left under a mask. Names of values are those of the program's text. */
#include "codegen/codegen_priv.h"
#include "loop/loop.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static const char *const prelude[] = {
#include "codegen/prelude.inc"
};

static const char frame[] =
    "\n/* ---- what kernels/fused.h says ---- */\n\n"
    "typedef struct td_rows {\n"
    "  const float *in[%d];\n  int64_t pitch[%d];\n  float *out[%d];\n  int64_t out_pitch[%d];\n"
    "  int64_t rows, n;\n  float *kept;\n  uint64_t scalars, stream;\n  const void *program;\n} td_rows;\n"
    "typedef void (*td_body)(const td_rows *rows);\n"
    "typedef struct td_code {\n  td_body body;\n  uint64_t scalars;\n} td_code;\n"
    "struct {\n  int (*run)(const void *call, const void *level, const td_code *code);\n  const void *level;\n} "
    "td_link;\n"
    "V_INLINE vf v_nan_max(vf a, vf b) { return v_select(v_eq(a, a), v_max(a, b), a); }\n"
    "V_INLINE vf v_nan_min(vf a, vf b) { return v_select(v_eq(a, a), v_min(a, b), a); }\n";

/* Of each reduction: where it begins, and how two vectors join. */
static const struct {
  const char *start, *join;
} reductions[BASE_COMBINE_COUNT] = {{"0", "v_add"}, {"-INFINITY", "v_nan_max"}, {"INFINITY", "v_nan_min"}};

typedef struct emitter {
  const codegen_kernel *k;
  const base_program *p;
  base_text *text;
  uint8_t stage[BASE_PROGRAM_OPS];
  bool kept[BASE_PROGRAM_OPS];
  uint32_t kept_at[BASE_PROGRAM_OPS], stages;
  bool streams; /* the loop at hand writes past the caches */
} emitter;

enum { AHEAD = 512 /* elements that a loop past the caches fetches ahead */ };

static void print_number(base_text *text, float x) {
  if (isnan(x)) base_text_print(text, "NAN");
  else if (isinf(x)) base_text_print(text, "%sINFINITY", x < 0 ? "-" : "");
  else base_text_print(text, "%af", (double)x);
}

/* The function's text with the values in place of x, y and z and the numbers in place of a, b and c. */
static void print_call(const emitter *e, const base_program_op *op) {
  const char *at = base_scalar_of((base_scalar)op->function)->value;
  while (*at) {
    size_t n = 1;
    while ((isalnum((unsigned char)*at) || *at == '_') && (isalnum((unsigned char)at[n]) || at[n] == '_')) n++;
    if (n == 1 && *at >= 'x' && *at <= 'z') {
      base_text_print(e->text, "v%u", op->in[*at - 'x']);
    } else if (n == 1 && *at >= 'a' && *at <= 'c') {
      base_text_print(e->text, "v_set(");
      print_number(e->text, op->p[*at - 'a']);
      base_text_print(e->text, ")");
    } else {
      base_text_add(e->text, at, n);
    }
    at += n;
  }
}

static bool is_scalar_load(const emitter *e, const base_program_op *op) {
  return op->kind == BASE_PROGRAM_LOAD && e->k->scalars >> op->function & 1;
}

/* Text from a model may hold anything: nothing of it may end a comment. */
static void print_safely(base_text *t, const char *text) {
  for (; *text; text++)
    base_text_add(t, isprint((unsigned char)*text) && *text != '*' && *text != '\\' && *text != '?' ? text : ".", 1);
}

/* The node that op `i` came of, at the end of its line. */
static void print_source(const emitter *e, uint32_t i) {
  const int64_t from = e->k->from ? e->k->from[i] : -1;
  if (from < 0 || from >= e->k->origin_count) return;
  base_text_print(e->text, " /* ");
  print_safely(e->text, e->k->origins[from]);
  base_text_print(e->text, " */");
}

/* What is computed for a row in front of the loop of `stage`. */
static void print_row_op(const emitter *e, uint32_t i, uint32_t stage) {
  const base_program_op *op = &e->p->ops[i];
  base_text *t = e->text;
  if (op->kind == BASE_PROGRAM_LOAD && stage == 0 && is_scalar_load(e, op))
    base_text_print(t, "    const vf v%u = v_set(*in%u);\n", i, op->function);
  if (!op->row || e->stage[i] != stage) return;
  if (op->kind == BASE_PROGRAM_LENGTH) base_text_print(t, "    const vf v%u = v_set((float)n);\n", i);
  if (op->kind == BASE_PROGRAM_STORE)
    base_text_print(t, "    r->out[%u][row * r->out_pitch[%u]] = v%u[0];\n", op->function, op->function, op->in[0]);
  if (op->kind == BASE_PROGRAM_REDUCE)
    base_text_print(t, "    vf a%u = v_set(%s), b%u = a%u;\n", i, reductions[op->function].start, i, i);
  if (op->kind != BASE_PROGRAM_SCALAR) return;
  base_text_print(t, "    const vf v%u = ", i);
  print_call(e, op);
  base_text_print(t, ";");
  print_source(e, i);
  base_text_print(t, "\n");
}

/* Is element op `i` needed in this stage? A load is where something reads it. */
static bool loads_here(const emitter *e, uint32_t i, uint32_t stage) {
  for (uint32_t u = i + 1; u < e->p->count; u++) {
    const base_program_op *op = &e->p->ops[u];
    const uint32_t operands = op->kind == BASE_PROGRAM_SCALAR ? base_scalar_of((base_scalar)op->function)->operands
                              : op->kind == BASE_PROGRAM_REDUCE || op->kind == BASE_PROGRAM_STORE ? 1
                                                                                                  : 0;
    for (uint32_t k = 0; k < operands; k++)
      if (op->in[k] == i && e->stage[u] == stage) return true;
  }
  return false;
}

/* One op of the loop, for the vector at `i + offset`; `masked`: of which `left` elements count. */
static void print_element_op(const emitter *e, uint32_t i, uint32_t stage, const char *at, bool masked, char sum) {
  const base_program_op *op = &e->p->ops[i];
  base_text *t = e->text;
  const char *n = masked ? "_n" : "", *left = masked ? ", left" : "";
  if (op->kind == BASE_PROGRAM_LOAD && !is_scalar_load(e, op) && loads_here(e, i, stage))
    base_text_print(t, "      const vf v%u = v_load%s(in%u + %s%s);%s", i, n, op->function, at, left,
                    e->streams ? "" : "\n");
  if (op->kind == BASE_PROGRAM_LOAD && !is_scalar_load(e, op) && loads_here(e, i, stage) && e->streams)
    base_text_print(t, " __builtin_prefetch(in%u + %s + %d);\n", op->function, at, AHEAD);
  if (e->kept[i] && e->stage[i] < stage && loads_here(e, i, stage))
    base_text_print(t, "      const vf v%u = v_load(kept + %u * wide + %s);\n", i, e->kept_at[i], at);
  if (e->stage[i] != stage) return;
  if (op->kind == BASE_PROGRAM_REDUCE) {
    base_text_print(t, "      %c%u = %s(%c%u, ", sum, i, reductions[op->function].join, sum, i);
    if (masked)
      base_text_print(t, "v_select(v_first(left), v%u, v_set(%s)));\n", op->in[0], reductions[op->function].start);
    else base_text_print(t, "v%u);\n", op->in[0]);
  }
  if (op->kind == BASE_PROGRAM_STORE && !op->row)
    base_text_print(t, "      %s%s(out%u + %s, v%u%s);\n", e->streams ? "v_stream" : "v_store", n, op->function, at,
                    op->in[0], left);
  if (op->kind != BASE_PROGRAM_SCALAR || op->row) return;
  base_text_print(t, "      const vf v%u = ", i);
  print_call(e, op);
  base_text_print(t, ";");
  print_source(e, i);
  base_text_print(t, "\n");
  if (e->kept[i]) base_text_print(t, "      v_store(kept + %u * wide + %s, v%u);\n", e->kept_at[i], at, i);
}

static void print_body(const emitter *e, uint32_t stage, const char *at, bool masked, char sum) {
  for (uint32_t i = 0; i < e->p->count; i++) print_element_op(e, i, stage, at, masked, sum);
}

/* A loop of whole vectors, whose results are not wanted in the caches. */
static void print_stream(const emitter *e, uint32_t stage) {
  emitter past = *e;
  past.streams = true;
  base_text_print(e->text, "    i = 0;\n    for (; r->stream && i + V_LANES <= n; i += V_LANES) {\n");
  print_body(&past, stage, "i", false, 'a');
  base_text_print(e->text, "    }\n");
}

static void print_stage(const emitter *e, uint32_t stage) {
  bool works = false, reduces = false;
  for (uint32_t i = 0; i < e->p->count; i++) {
    const base_program_op *op = &e->p->ops[i];
    const bool here = e->stage[i] == stage;
    reduces |= here && op->kind == BASE_PROGRAM_REDUCE;
    works |= here && ((op->kind == BASE_PROGRAM_STORE && !op->row) || op->kind == BASE_PROGRAM_REDUCE || e->kept[i]);
  }
  for (uint32_t i = 0; i < e->p->count; i++) print_row_op(e, i, stage);
  if (!works) return;
  if (!e->p->row_axes) print_stream(e, stage);
  base_text_print(e->text, "    for (%s; i + %sV_LANES <= n; i += %sV_LANES) {\n", e->p->row_axes ? "i = 0" : "",
                  reduces ? "2 * " : "", reduces ? "2 * " : "");
  if (reduces) {
    base_text_print(e->text, "      {\n");
    print_body(e, stage, "i", false, 'a');
    base_text_print(e->text, "      }\n");
  }
  print_body(e, stage, reduces ? "i + V_LANES" : "i", false, reduces ? 'b' : 'a');
  base_text_print(e->text,
                  "    }\n    for (; i < n; i += V_LANES) {\n"
                  "      const int64_t left = n - i < V_LANES ? n - i : V_LANES;\n");
  print_body(e, stage, "i", true, 'a');
  base_text_print(e->text, "    }\n");
  for (uint32_t i = 0; i < e->p->count; i++)
    if (e->p->ops[i].kind == BASE_PROGRAM_REDUCE && e->stage[i] == stage)
      base_text_print(e->text, "    vf v%u = %s(a%u, b%u);\n    V_ACROSS(v%u, %s);\n", i,
                      reductions[e->p->ops[i].function].join, i, i, i, reductions[e->p->ops[i].function].join);
}

static void print_comment(const emitter *e) {
  base_text *t = e->text;
  base_text_print(t, "\n/* ");
  for (uint32_t i = 0; i < e->k->origin_count; i++) {
    base_text_print(t, "%s", i ? "\n * " : "");
    print_safely(t, e->k->origins[i]);
  }
  base_text_print(t, "\n *\n");
  base_text program = {.allocator = t->allocator};
  loop_print(e->p, &program);
  for (const char *line = program.at; line && *line;) {
    const char *end = strchr(line, '\n');
    base_text_print(t, " * %.*s\n", (int)(end - line), line);
    line = end + 1;
  }
  t->failed |= program.failed;
  base_text_free(&program);
  base_text_print(t, " */\n");
}

static void print_kernel(emitter *e) {
  base_text *t = e->text;
  uint32_t kept = 0;
  e->stages = base_program_stages(e->p, e->stage);
  base_program_kept(e->p, e->stage, e->kept);
  for (uint32_t s = 0; s < e->stages; s++)
    for (uint32_t i = 0; i < e->p->count; i++)
      if (e->kept[i] && e->stage[i] == s) e->kept_at[i] = kept++;
  print_comment(e);
  base_text_print(t, "void %s_rows(const td_rows *r) {\n  const int64_t n = r->n;\n  int64_t i;\n", e->k->name);
  if (kept) base_text_print(t, "  const int64_t wide = (n + 15) / 16 * 16;\n  float *kept = r->kept;\n");
  for (uint32_t i = 0; i < e->p->count; i++) {
    if (e->p->ops[i].kind != BASE_PROGRAM_NUMBER) continue;
    base_text_print(t, "  const vf v%u = v_set(", i);
    print_number(t, e->p->ops[i].p[0]);
    base_text_print(t, ");\n");
  }
  base_text_print(t, "  for (int64_t row = 0; row < r->rows; row++) {\n");
  for (uint32_t k = 0; k < e->p->in_count; k++)
    base_text_print(t, "    const float *in%u = r->in[%u] + row * r->pitch[%u];\n", k, k, k);
  for (uint32_t i = 0; i < e->p->count; i++)
    if (e->p->ops[i].kind == BASE_PROGRAM_STORE && !e->p->ops[i].row)
      base_text_print(t, "    float *out%u = r->out[%u] + row * r->out_pitch[%u];\n", e->p->ops[i].function,
                      e->p->ops[i].function, e->p->ops[i].function);
  for (uint32_t s = 0; s <= e->stages; s++) print_stage(e, s);
  base_text_print(t, "  }\n  if (r->stream) v_fence();\n}\n");
  base_text_print(t, "%sconst td_code %s%s = {%s_rows, 0x%llxull};\n", e->k->chain ? "" : "static ", e->k->name,
                  e->k->chain ? "" : "_code", e->k->name, (unsigned long long)e->k->scalars);
  if (e->k->chain) return;
  base_text_print(t, "int %s(const void *call) { return td_link.run(call, td_link.level, &%s_code); }\n", e->k->name,
                  e->k->name);
}

bool codegen_emit(const codegen_kernel *kernels, uint32_t count, base_text *text) {
  for (size_t i = 0; i < sizeof prelude / sizeof *prelude; i++) base_text_add(text, prelude[i], strlen(prelude[i]));
  base_text_print(text, frame, BASE_PROGRAM_OPERANDS, BASE_PROGRAM_OPERANDS, BASE_PROGRAM_OUTS, BASE_PROGRAM_OUTS);
  for (uint32_t i = 0; i < count; i++) {
    emitter e = {.k = &kernels[i], .p = kernels[i].program, .text = text};
    print_kernel(&e);
  }
  return !text->failed;
}
