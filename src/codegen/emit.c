/* emit.c -- C text of programs. A kernel is one function over rows; a stage of the program is a loop over the row,
 * whole vectors first, then what is left under a mask. Of a program across rows it is a loop over the elements of as
 * many rows as a vector has lanes. Names of values are those of the program's text. */
#include "codegen/codegen_priv.h"
#include "fmt/zip.h"
#include "kernels/loops/loops.h"
#include "kernels/simd/simd.def" /* what words types have */
#include "loop/loop.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "codegen/prelude.inc" /* the text that opens each file, deflated: packed_prelude of PRELUDE_BYTES */

static const char frame[] =
    "\n/* ---- what kernels/loops/loops.h says ---- */\n\n"
    "typedef struct td_rows {\n"
    "  const void *in[%d];\n  int64_t pitch[%d];\n  void *out[%d];\n  int64_t out_pitch[%d];\n"
    "  int64_t rows, n;\n  float *kept;\n  uint64_t scalars, stream;\n  const void *program;\n} td_rows;\n"
    "typedef void (*td_body)(const td_rows *rows);\n"
    "typedef struct td_code {\n  td_body body;\n  uint64_t scalars;\n} td_code;\n"
    "#define TD_APPLY(n, function, from, to, type, result, x, y, z, ...)                               \\\n"
    "  type result;                                                                                   \\\n"
    "  do {                                                                                           \\\n"
    "    const double td_p[3] = {__VA_ARGS__};                                                        \\\n"
    "    const td_source td_in[3] = {{&x, 1}, {&y, 1}, {&z, 1}};                                      \\\n"
    "    td_link.apply(function, from, to, td_p, &result, td_in, n);                                  \\\n"
    "  } while (0)\n";

/* How each type is spelled: the front of its words in simd.def, its vector, and its element in memory. */
static const struct {
  const char *words, *vector, *element;
} types[BASE_TYPE_COUNT] = {[BASE_TYPE_F32] = {"v", "vf", "float"},
                            [BASE_TYPE_F64] = {"d", "vd", "double"},
                            [BASE_TYPE_I32] = {"i", "vi", "int32_t"},
                            [BASE_TYPE_I64] = {"l", "vl", "int64_t"},
                            [BASE_TYPE_BOOL] = {"b", "vi", "uint8_t"}};

/* Of each reduction: how two vectors join, and where it begins for each type; NULL: it has none. */
static const struct {
  const char *join, *start[BASE_TYPE_COUNT];
} reductions[BASE_COMBINE_COUNT] = {{"add", {"0", "0", "0", "0", NULL}},
                                    {"nan_max", {"-INFINITY", "-INFINITY", "INT32_MIN", "INT64_MIN", "0"}},
                                    {"nan_min", {"INFINITY", "INFINITY", "INT32_MAX", "INT64_MAX", "-1"}},
                                    {"mul", {"1", "1", "1", "1", NULL}},
                                    {"logaddexp", {NULL, "-INFINITY", NULL, NULL, NULL}}};

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

static void print_number(base_text *text, double x, const char *ending) {
  if (isnan(x)) base_text_print(text, "NAN");
  else if (isinf(x)) base_text_print(text, "%sINFINITY", x < 0 ? "-" : "");
  else base_text_print(text, "%a%s", x, ending);
}

/* A number of a type as an element. */
static void print_constant(base_text *text, const base_program_op *op) {
  if (op->type == BASE_TYPE_BOOL) base_text_print(text, "%d", op->whole ? -1 : 0);
  else if (base_type_is_float((base_type)op->type)) print_number(text, op->p[0], op->type == BASE_TYPE_F32 ? "f" : "");
  else if (op->whole == INT64_MIN) base_text_print(text, "INT64_MIN");
  else base_text_print(text, "%lldll", (long long)op->whole);
}

static bool is_among(const char *const *words, size_t count, const char *word, size_t length) {
  for (size_t i = 0; i < count; i++)
    if (strlen(words[i]) == length && memcmp(words[i], word, length) == 0) return true;
  return false;
}
#define AMONG(words, word, length) is_among(words, sizeof(words) / sizeof *(words), word, length)

#define WORD_NAME(p, word, ...) #word,
#define FUNCTION_NAME(word, ...) #word,
static const char *const number_words[] = {TYPE_NUMBER(WORD_NAME, , , , , )};
static const char *const whole_words[] = {TYPE_WHOLE(WORD_NAME, , , )};
static const char *const truth_words[] = {TYPE_TRUTH(WORD_NAME, )};
static const char *const double_words[] = {TYPE_DOUBLE(WORD_NAME, )};
static const char *const double_functions[] = {TYPE_DOUBLE_FUNCTIONS(FUNCTION_NAME, FUNCTION_NAME, FUNCTION_NAME)};

static bool is_double_function(const char *word, size_t length) { return AMONG(double_functions, word, length); }

/* Does a type other than F32 have the word? */
static bool has_word(const char *word, size_t length, base_type type) {
  if (type == BASE_TYPE_BOOL) return AMONG(truth_words, word, length);
  if (AMONG(number_words, word, length)) return true;
  if (type != BASE_TYPE_F64) return AMONG(whole_words, word, length);
  return AMONG(double_words, word, length) || is_double_function(word, length);
}

static size_t word_length(const char *at) {
  size_t n = 1;
  while ((isalnum((unsigned char)*at) || *at == '_') && (isalnum((unsigned char)at[n]) || at[n] == '_')) n++;
  return n;
}

/* Does the vocabulary have all words of the function's text? */
static bool is_inline(const base_scalar_info *f, base_type type) {
  if (type == BASE_TYPE_F32) return !f->plain;
  size_t n;
  for (const char *at = f->value; *at; at += n) {
    n = word_length(at);
    if (n > 2 && at[0] == 'v' && at[1] == '_' && !has_word(at + 2, n - 2, type)) return false;
    if (n > 2 && at[0] != 'v' && type != BASE_TYPE_F64) return false; /* INFINITY */
    if (n > 2 && at[0] != 'v' && at[0] != 'I') return false;          /* libm's */
  }
  return true;
}

/* Does the op take words that doubles_priv.h has? */
static bool needs_doubles(const base_program *p, const base_program_op *op) {
  if (op->kind == BASE_PROGRAM_SCAN) return op->function == BASE_COMBINE_LOG_ADD;
  if (op->kind != BASE_PROGRAM_SCALAR || op->function == BASE_SCALAR_cast) return false;
  const base_scalar_info *f = base_scalar_of((base_scalar)op->function);
  bool needs = false;
  if (base_program_operand_type(p, op) != BASE_TYPE_F64 || !is_inline(f, BASE_TYPE_F64)) return false;
  size_t n;
  for (const char *at = f->value; *at; at += n) {
    n = word_length(at);
    needs |= n > 2 && at[1] == '_' && is_double_function(at + 2, n - 2);
  }
  return needs;
}

/* The function's text with the values in place of x, y and z and the numbers in place of a, b and c, in the words of
 * the type. */
static void print_inline(const emitter *e, const base_program_op *op, base_type type) {
  const bool narrow = type == BASE_TYPE_F32;
  size_t n;
  for (const char *at = base_scalar_of((base_scalar)op->function)->value; *at; at += n) {
    n = word_length(at);
    if (n == 1 && *at >= 'x' && *at <= 'z') {
      base_text_print(e->text, "v%u", op->in[*at - 'x']);
    } else if (n == 1 && *at >= 'a' && *at <= 'c') {
      base_text_print(e->text, "%s_set(", types[type].words);
      print_number(e->text, op->p[*at - 'a'], narrow ? "f" : "");
      base_text_print(e->text, ")");
    } else if (n > 2 && at[1] == '_') {
      base_text_print(e->text, "%s%.*s", types[type].words, (int)n - 1, at + 1);
    } else {
      base_text_add(e->text, at, n);
    }
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

/* Value `i`, of a function. Where vectors do not have that, elements are computed by whoever linked the code. */
static void print_value(const emitter *e, uint32_t i, const char *indent) {
  const base_program_op *op = &e->p->ops[i];
  const base_type from = base_program_operand_type(e->p, op), to = (base_type)op->type;
  const base_scalar_info *f = base_scalar_of((base_scalar)op->function);
  base_text *t = e->text;
  if (op->function == BASE_SCALAR_cast) { /* a word of the vocabulary: "l_to_v" */
    base_text_print(t, "%sconst %s v%u = %s_to_%s(v%u);", indent, types[to].vector, i, types[from].words,
                    types[to].words, op->in[0]);
  } else if (is_inline(f, from)) {
    base_text_print(t, "%sconst %s v%u = ", indent, types[to].vector, i);
    print_inline(e, op, from);
    base_text_print(t, ";");
  } else {
    const bool one = op->row && !e->p->across;
    base_text_print(t, "%sTD_APPLY(%s, %u /* %s */, %u, %u, %s, v%u", indent, one ? "1" : "V_LANES", op->function,
                    f->name, (unsigned)from, (unsigned)to, types[to].vector, i);
    for (uint32_t k = 0; k < 3; k++) base_text_print(t, ", v%u", op->in[k < f->operands ? k : 0]);
    for (uint32_t k = 0; k < 3; k++) {
      base_text_print(t, ", ");
      print_number(t, op->p[k], "");
    }
    base_text_print(t, ");");
    if (one) base_text_print(t, " v%u = %s_set(v%u[0]);", i, types[to].words, i);
  }
  print_source(e, i);
  base_text_print(t, "\n");
}

/* What is computed for a row in front of the loop of `stage`. */
static void print_row_op(const emitter *e, uint32_t i, uint32_t stage) {
  const base_program_op *op = &e->p->ops[i];
  const char *words = types[op->type].words, *vector = types[op->type].vector;
  base_text *t = e->text;
  if (op->kind == BASE_PROGRAM_LOAD && stage == 0 && is_scalar_load(e, op))
    base_text_print(t, "    const %s v%u = %s_set(%s*in%u%s);\n", vector, i, words,
                    op->type == BASE_TYPE_BOOL ? "-(" : "", op->function, op->type == BASE_TYPE_BOOL ? " != 0)" : "");
  if (op->kind == BASE_PROGRAM_SCAN && e->stage[i] == stage)
    base_text_print(t, "    %s a%u = %s_set(%s);\n", vector, i, words, reductions[op->function].start[op->type]);
  if (!op->row || e->stage[i] != stage) return;
  if (op->kind == BASE_PROGRAM_LENGTH)
    base_text_print(t, "    const %s v%u = %s_set((%s)n);\n", vector, i, words, types[op->type].element);
  if (op->kind == BASE_PROGRAM_STORE)
    base_text_print(t, "    ((%s *)r->out[%u])[row * r->out_pitch[%u]] = v%u[0]%s;\n", types[op->type].element,
                    op->function, op->function, op->in[0], op->type == BASE_TYPE_BOOL ? " != 0" : "");
  if (op->kind == BASE_PROGRAM_REDUCE)
    base_text_print(t, "    %s v%u = %s_set(%s);\n", vector, i, words, reductions[op->function].start[op->type]);
  if (op->kind == BASE_PROGRAM_SCALAR) print_value(e, i, "    ");
}

/* Is element op `i` needed in this stage? A load is where something reads it. */
static bool loads_here(const emitter *e, uint32_t i, uint32_t stage) {
  for (uint32_t u = i + 1; u < e->p->count; u++) {
    const base_program_op *op = &e->p->ops[u];
    const uint32_t operands = base_program_operands(op);
    for (uint32_t k = 0; k < operands; k++)
      if (op->in[k] == i && e->stage[u] == stage) return true;
  }
  return false;
}

static void print_reduction(const emitter *e, uint32_t i, bool masked, char sum) {
  const base_program_op *op = &e->p->ops[i];
  const char *words = types[op->type].words;
  base_text_print(e->text, "      %c%u = %s_%s(%c%u, ", sum, i, words, reductions[op->function].join, sum, i);
  if (masked)
    base_text_print(e->text, "%s_select(%s_first(left), v%u, %s_set(%s)));\n", words, words, op->in[0], words,
                    reductions[op->function].start[op->type]);
  else base_text_print(e->text, "v%u);\n", op->in[0]);
}

/* What has been seen of the row, of a vector at a time. Where it runs back, the lanes change places; of a masked vector
 * those that do not count stand in front then. */
static void print_scan(const emitter *e, const base_program_op *op, uint32_t i, bool masked) {
  const char *words = types[op->type].words, *vector = types[op->type].vector;
  const char *name = base_combine_name((base_combine)op->function);
  base_text *t = e->text;
  if (!op->in[1]) {
    base_text_print(t, "      const %s v%u = %s_scan_%s(v%u, &a%u);\n", vector, i, words, name, op->in[0], i);
    return;
  }
  const bool back = op->in[1] & BASE_SCAN_REVERSE, exclusive = op->in[1] & BASE_SCAN_EXCLUSIVE;
  base_text_print(t, "      %s v%u = v%u;\n", vector, i, op->in[0]);
  if (back && masked)
    base_text_print(t, "      v%u = %s_select(%s_first(left), v%u, %s_set(%s));\n", i, words, words, i, words,
                    reductions[op->function].start[op->type]);
  if (back) base_text_print(t, "      V_BACK(%s, v%u);\n", vector, i);
  if (exclusive) base_text_print(t, "      const %s b%u = a%u;\n", vector, i, i);
  base_text_print(t, "      v%u = %s_scan_%s(v%u, &a%u);\n", i, words, name, i, i);
  if (exclusive) base_text_print(t, "      V_BEFORE(v%u, b%u);\n", i, i);
  if (back) base_text_print(t, "      V_BACK(%s, v%u);\n", vector, i);
}

/* One op of the loop, for the vector at `i + offset`; `masked`: of which `left` elements count. */
static void print_element_op(const emitter *e, uint32_t i, uint32_t stage, const char *at, bool masked, char sum) {
  const base_program_op *op = &e->p->ops[i];
  base_text *t = e->text;
  const char *n = masked ? "_n" : "", *left = masked ? ", left" : "";
  const char *words = types[op->type].words, *vector = types[op->type].vector;
  if (op->kind == BASE_PROGRAM_LOAD && !is_scalar_load(e, op) && loads_here(e, i, stage))
    base_text_print(t, "      const %s v%u = %s_load%s(in%u + %s%s);%s", vector, i, words, n, op->function, at, left,
                    e->streams ? "" : "\n");
  if (op->kind == BASE_PROGRAM_LOAD && !is_scalar_load(e, op) && loads_here(e, i, stage) && e->streams)
    base_text_print(t, " __builtin_prefetch(in%u + %s + %d);\n", op->function, at, AHEAD);
  if (e->kept[i] && e->stage[i] < stage && loads_here(e, i, stage))
    base_text_print(t, "      const %s v%u = *(const %s_any *)((const %s *)(kept + %u * wide) + %s);\n", vector, i,
                    vector, op->type == BASE_TYPE_BOOL ? "int32_t" : types[op->type].element, e->kept_at[i], at);
  if (e->stage[i] != stage) return;
  if (op->kind == BASE_PROGRAM_REDUCE) print_reduction(e, i, masked, sum);
  if (op->kind == BASE_PROGRAM_STORE && !op->row)
    base_text_print(t, "      %s_%s%s(out%u + %s, v%u%s);\n", words,
                    e->streams && op->type == BASE_TYPE_F32 ? "stream" : "store", n, op->function, at, op->in[0], left);
  if (!base_program_computes(op)) return;
  if (op->kind == BASE_PROGRAM_SCALAR) print_value(e, i, "      ");
  else print_scan(e, op, i, masked);
  if (e->kept[i])
    base_text_print(t, "      *(%s_any *)((%s *)(kept + %u * wide) + %s) = v%u;\n", vector,
                    op->type == BASE_TYPE_BOOL ? "int32_t" : types[op->type].element, e->kept_at[i], at, i);
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

/* Of each reduction of the stage, in front of a piece of the row: its two sums. */
static void print_starts(const emitter *e, uint32_t stage) {
  for (uint32_t i = 0; i < e->p->count; i++) {
    const base_program_op *op = &e->p->ops[i];
    if (op->kind == BASE_PROGRAM_REDUCE && e->stage[i] == stage)
      base_text_print(e->text, "      %s a%u = %s_set(%s), b%u = a%u;\n", types[op->type].vector, i,
                      types[op->type].words, reductions[op->function].start[op->type], i, i);
  }
}

/* Behind it: the sums of the piece join the row's. */
static void print_joins(const emitter *e, uint32_t stage) {
  for (uint32_t i = 0; i < e->p->count; i++) {
    const base_program_op *op = &e->p->ops[i];
    if (op->kind != BASE_PROGRAM_REDUCE || e->stage[i] != stage) continue;
    const char *words = types[op->type].words, *join = reductions[op->function].join;
    base_text_print(e->text, "      v%u = %s_%s(v%u, %s_%s(a%u, b%u));\n", i, words, join, i, words, join, i, i);
  }
}

/* Behind the row: all lanes of what the stage reduces are joined. */
static void print_totals(const emitter *e, uint32_t stage) {
  for (uint32_t i = 0; i < e->p->count; i++) {
    const base_program_op *op = &e->p->ops[i];
    if (op->kind == BASE_PROGRAM_REDUCE && e->stage[i] == stage)
      base_text_print(e->text, "    V_ACROSS(v%u, %s_%s);\n", i, types[op->type].words, reductions[op->function].join);
  }
}

/* A loop from the row's last element down. */
static void print_back(const emitter *e, uint32_t stage) {
  base_text_print(e->text, "    {\n");
  print_starts(e, stage);
  base_text_print(e->text, "    i = n / V_LANES * V_LANES;\n    if (i < n) {\n      const int64_t left = n - i;\n");
  print_body(e, stage, "i", true, 'a');
  base_text_print(e->text, "    }\n    for (i -= V_LANES; i >= 0; i -= V_LANES) {\n");
  print_body(e, stage, "i", false, 'a');
  base_text_print(e->text, "    }\n");
  print_joins(e, stage);
  base_text_print(e->text, "    }\n");
  print_totals(e, stage);
}

/* Piece by piece (KERN_FUSED_PIECE), in each two vectors at once. */
static void print_reducing(const emitter *e, uint32_t stage) {
  base_text *t = e->text;
  bool wide = false;
  for (uint32_t i = 0; i < e->p->count; i++) wide |= base_type_is_wide((base_type)e->p->ops[i].type);
  base_text_print(t,
                  "    for (int64_t from = 0; from < n; from += %d) {\n"
                  "      const int64_t end = n - from < %d ? n : from + %d;\n",
                  KERN_FUSED_PIECE / (wide ? 2 : 1), KERN_FUSED_PIECE / (wide ? 2 : 1),
                  KERN_FUSED_PIECE / (wide ? 2 : 1));
  print_starts(e, stage);
  base_text_print(t, "      for (i = from; i + 2 * V_LANES <= end; i += 2 * V_LANES) {\n      {\n");
  print_body(e, stage, "i", false, 'a');
  base_text_print(t, "      }\n");
  print_body(e, stage, "i + V_LANES", false, 'b');
  base_text_print(t,
                  "      }\n      for (; i < end; i += V_LANES) {\n"
                  "      const int64_t left = end - i < V_LANES ? end - i : V_LANES;\n");
  print_body(e, stage, "i", true, 'a');
  base_text_print(t, "      }\n");
  print_joins(e, stage);
  base_text_print(t, "    }\n");
  print_totals(e, stage);
}

/* Does the stage do anything with elements? *reduces: it reduces some. */
static bool loops_in(const emitter *e, uint32_t stage, bool *reduces) {
  bool works = false;
  *reduces = false;
  for (uint32_t i = 0; i < e->p->count; i++) {
    const base_program_op *op = &e->p->ops[i];
    const bool here = e->stage[i] == stage;
    *reduces |= here && op->kind == BASE_PROGRAM_REDUCE;
    works |= here && ((op->kind == BASE_PROGRAM_STORE && !op->row) || op->kind == BASE_PROGRAM_REDUCE || e->kept[i]);
  }
  return works;
}

static void print_stage(const emitter *e, uint32_t stage) {
  bool reduces;
  const bool works = loops_in(e, stage, &reduces);
  for (uint32_t i = 0; i < e->p->count; i++) print_row_op(e, i, stage);
  if (!works) return;
  if (base_program_runs_back(e->p, e->stage, stage)) {
    print_back(e, stage);
    return;
  }
  if (reduces) {
    print_reducing(e, stage);
    return;
  }
  if (!e->p->row_axes) print_stream(e, stage);
  base_text_print(e->text, "    for (%s; i + V_LANES <= n; i += V_LANES) {\n", e->p->row_axes ? "i = 0" : "");
  print_body(e, stage, "i", false, 'a');
  base_text_print(e->text,
                  "    }\n    for (; i < n; i += V_LANES) {\n"
                  "      const int64_t left = n - i < V_LANES ? n - i : V_LANES;\n");
  print_body(e, stage, "i", true, 'a');
  base_text_print(e->text, "    }\n");
}

/* ---- across rows ---- */

/* "_n(in0 + at * p0 + row, v1, left)", of operand or output `name``k`: its place at the element at hand, or, `one`, of
 * what there is one of a row. `value` < 0: a load. */
static void print_place_across(const emitter *e, const char *name, uint32_t k, bool one, int64_t value, bool masked) {
  base_text_print(e->text, "%s(%s%u", masked ? "_n" : "", name, k);
  if (!one) base_text_print(e->text, " + at * %s%u_pitch", name, k);
  base_text_print(e->text, " + row");
  if (value >= 0) base_text_print(e->text, ", v%lld", (long long)value);
  base_text_print(e->text, "%s);\n", masked ? ", left" : "");
}

static void print_load_across(const emitter *e, uint32_t i, bool one, bool masked) {
  const base_program_op *op = &e->p->ops[i];
  base_text_print(e->text, "      const %s v%u = %s_load", types[op->type].vector, i, types[op->type].words);
  print_place_across(e, "in", op->function, one, -1, masked);
}

static void print_store_across(const emitter *e, const base_program_op *op, bool masked) {
  base_text_print(e->text, "      %s_store", types[op->type].words);
  print_place_across(e, "out", op->function, op->row, op->in[0], masked);
}

/* Where element `at` of a value that is kept stands. */
static void print_kept_across(const emitter *e, uint32_t i) {
  const base_type type = (base_type)e->p->ops[i].type;
  base_text_print(e->text, "*(%s_any *)(kept + (%u * n + %s * at) * V_LANES)", types[type].vector, e->kept_at[i],
                  base_type_is_wide(type) ? "2" : "1");
}

static void print_join_across(const emitter *e, uint32_t i) {
  const base_program_op *op = &e->p->ops[i];
  base_text_print(e->text, "      a%u = %s_%s(a%u, v%u);\n", i, types[op->type].words, reductions[op->function].join, i,
                  op->in[0]);
}

static void print_scan_across(const emitter *e, uint32_t i) {
  const base_program_op *op = &e->p->ops[i];
  const bool exclusive = op->in[1] & BASE_SCAN_EXCLUSIVE;
  if (!exclusive) print_join_across(e, i);
  base_text_print(e->text, "      const %s v%u = a%u;\n", types[op->type].vector, i, i);
  if (exclusive) print_join_across(e, i);
}

/* One op of the loop over elements. */
static void print_element_across(const emitter *e, uint32_t i, uint32_t stage, bool masked) {
  const base_program_op *op = &e->p->ops[i];
  const bool needed = loads_here(e, i, stage);
  if (op->kind == BASE_PROGRAM_LOAD && !is_scalar_load(e, op) && needed) print_load_across(e, i, false, masked);
  if (e->kept[i] && e->stage[i] < stage && needed) {
    base_text_print(e->text, "      const %s v%u = ", types[op->type].vector, i);
    print_kept_across(e, i);
    base_text_print(e->text, ";\n");
  }
  if (e->stage[i] != stage) return;
  if (op->kind == BASE_PROGRAM_REDUCE) print_join_across(e, i);
  if (op->kind == BASE_PROGRAM_STORE && !op->row) print_store_across(e, op, masked);
  if (!base_program_computes(op)) return;
  if (op->kind == BASE_PROGRAM_SCALAR) print_value(e, i, "      ");
  else print_scan_across(e, i);
  if (!e->kept[i]) return;
  base_text_print(e->text, "      ");
  print_kept_across(e, i);
  base_text_print(e->text, " = v%u;\n", i);
}

/* What is done once for the rows in front of the loop of `stage`. */
static void print_rows_across(const emitter *e, uint32_t stage, bool masked) {
  for (uint32_t i = 0; i < e->p->count; i++) {
    const base_program_op *op = &e->p->ops[i];
    const char *words = types[op->type].words, *vector = types[op->type].vector;
    const bool starts = op->kind == BASE_PROGRAM_REDUCE || op->kind == BASE_PROGRAM_SCAN;
    if (stage == 0 && is_scalar_load(e, op)) print_load_across(e, i, true, masked);
    if (e->stage[i] != stage) continue;
    if (starts)
      base_text_print(e->text, "      %s a%u = %s_set(%s);\n", vector, i, words,
                      reductions[op->function].start[op->type]);
    if (op->kind == BASE_PROGRAM_LENGTH)
      base_text_print(e->text, "      const %s v%u = %s_set((%s)n);\n", vector, i, words, types[op->type].element);
    if (op->kind == BASE_PROGRAM_STORE && op->row) print_store_across(e, op, masked);
    if (op->kind == BASE_PROGRAM_SCALAR && op->row) print_value(e, i, "      ");
  }
}

static void print_stage_across(const emitter *e, uint32_t stage, bool masked) {
  const bool back = base_program_runs_back(e->p, e->stage, stage);
  bool reduces;
  print_rows_across(e, stage, masked);
  if (!loops_in(e, stage, &reduces)) return;
  base_text_print(e->text, back ? "      for (int64_t at = n - 1; at >= 0; at--) {\n"
                                : "      for (int64_t at = 0; at < n; at++) {\n");
  for (uint32_t i = 0; i < e->p->count; i++) print_element_across(e, i, stage, masked);
  base_text_print(e->text, "      }\n");
  for (uint32_t i = 0; i < e->p->count; i++)
    if (e->p->ops[i].kind == BASE_PROGRAM_REDUCE && e->stage[i] == stage)
      base_text_print(e->text, "      const %s v%u = a%u;\n", types[e->p->ops[i].type].vector, i, i);
}

/* Whole vectors of rows, then those that are left. */
static void print_kernel_across(const emitter *e) {
  for (uint32_t i = 0; i < e->p->count; i++) {
    const base_program_op *op = &e->p->ops[i];
    const bool load = op->kind == BASE_PROGRAM_LOAD, one = op->row || is_scalar_load(e, op);
    const char *element = types[op->type].element;
    if (!load && op->kind != BASE_PROGRAM_STORE) continue;
    base_text_print(e->text, "  %s%s *%s%u = r->%s[%u];\n", load ? "const " : "", element, load ? "in" : "out",
                    op->function, load ? "in" : "out", op->function);
    if (!one)
      base_text_print(e->text, "  const int64_t %s%u_pitch = r->%s[%u];\n", load ? "in" : "out", op->function,
                      load ? "pitch" : "out_pitch", op->function);
  }
  base_text_print(e->text, "  int64_t row = 0;\n  for (; row + V_LANES <= r->rows; row += V_LANES) {\n");
  for (uint32_t s = 0; s <= e->stages; s++) print_stage_across(e, s, false);
  base_text_print(e->text, "  }\n  if (row < r->rows) {\n    const int64_t left = r->rows - row;\n");
  for (uint32_t s = 0; s <= e->stages; s++) print_stage_across(e, s, true);
  base_text_print(e->text, "  }\n");
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

/* Numbers, and where the operands and results of a row begin. */
static void print_constants(const emitter *e) {
  for (uint32_t i = 0; i < e->p->count; i++) {
    const base_program_op *op = &e->p->ops[i];
    if (op->kind != BASE_PROGRAM_NUMBER) continue;
    base_text_print(e->text, "  const %s v%u = %s_set(", types[op->type].vector, i, types[op->type].words);
    print_constant(e->text, op);
    base_text_print(e->text, ");\n");
  }
}

static void print_places(const emitter *e) {
  for (uint32_t i = 0; i < e->p->count; i++) {
    const base_program_op *op = &e->p->ops[i];
    const char *element = types[op->type].element;
    if (op->kind == BASE_PROGRAM_LOAD)
      base_text_print(e->text, "    const %s *in%u = (const %s *)r->in[%u] + row * r->pitch[%u];\n", element,
                      op->function, element, op->function, op->function);
    if (op->kind == BASE_PROGRAM_STORE && !op->row)
      base_text_print(e->text, "    %s *out%u = (%s *)r->out[%u] + row * r->out_pitch[%u];\n", element, op->function,
                      element, op->function, op->function);
  }
}

/* Row by row. */
static void print_kernel_along(const emitter *e, bool keeps) {
  base_text_print(e->text, "  int64_t i;\n");
  if (keeps) base_text_print(e->text, "  const int64_t wide = (n + 15) / 16 * 16;\n");
  base_text_print(e->text, "  for (int64_t row = 0; row < r->rows; row++) {\n");
  print_places(e);
  for (uint32_t s = 0; s <= e->stages; s++) print_stage(e, s);
  base_text_print(e->text, "  }\n  if (r->stream) v_fence();\n");
}

static void print_kernel(emitter *e) {
  base_text *t = e->text;
  uint32_t kept = 0;
  e->stages = base_program_stages(e->p, e->stage);
  base_program_kept(e->p, e->stage, e->kept);
  for (uint32_t s = 0; s < e->stages; s++)
    for (uint32_t i = 0; i < e->p->count; i++) {
      if (!e->kept[i] || e->stage[i] != s) continue;
      e->kept_at[i] = kept;
      kept += base_type_is_wide((base_type)e->p->ops[i].type) ? 2 : 1;
    }
  print_comment(e);
  base_text_print(t, "void %s_rows(const td_rows *r) {\n  const int64_t n = r->n;\n", e->k->name);
  if (kept) base_text_print(t, "  float *kept = r->kept;\n");
  print_constants(e);
  if (e->p->across) print_kernel_across(e);
  else print_kernel_along(e, kept > 0);
  base_text_print(t, "}\n");
  base_text_print(t, "%sconst td_code %s%s = {%s_rows, 0x%llxull};\n", e->k->chain ? "" : "static ", e->k->name,
                  e->k->chain ? "" : "_code", e->k->name, (unsigned long long)e->k->scalars);
  if (e->k->chain) return;
  base_text_print(t, "int %s(const void *call) { return td_link.run(call, td_link.level, &%s_code); }\n", e->k->name,
                  e->k->name);
}

static void add_packed(base_text *text, const uint8_t *packed, size_t size, size_t bytes) {
  uint8_t *plain = base_alloc(text->allocator, bytes);
  if (plain && fmt_inflate(packed, size, plain, bytes, NULL) == TD_OK) base_text_add(text, (const char *)plain, bytes);
  else text->failed = true;
  base_free(text->allocator, plain, bytes);
}

bool codegen_emit(const codegen_kernel *kernels, uint32_t count, base_text *text) {
  bool doubles = count == 0; /* the contract is about all that there can be */
  for (uint32_t k = 0; k < count; k++)
    for (uint32_t i = 0; i < kernels[k].program->count; i++)
      doubles |= needs_doubles(kernels[k].program, &kernels[k].program->ops[i]);
  base_text_print(text, "enum { /* of scalar.def */");
  for (uint32_t i = 0; i < BASE_SCALAR_COUNT; i++)
    base_text_print(text, "%sTD_%s = %u", i ? ", " : " ", base_scalar_of((base_scalar)i)->name, i);
  base_text_print(text, " };\n");
  add_packed(text, packed_prelude, sizeof packed_prelude, PRELUDE_BYTES);
  if (doubles) add_packed(text, packed_doubles, sizeof packed_doubles, DOUBLES_BYTES);
  base_text_print(text, frame, BASE_PROGRAM_OPERANDS, BASE_PROGRAM_OPERANDS, BASE_PROGRAM_OUTS, BASE_PROGRAM_OUTS);
  for (uint32_t i = 0; i < count; i++) {
    emitter e = {.k = &kernels[i], .p = kernels[i].program, .text = text};
    print_kernel(&e);
  }
  return !text->failed;
}
