/* emit.h -- writes the few pickle instructions the tests need, and torch.save files made of them. */
#ifndef TESTS_FMT_EMIT_H
#define TESTS_FMT_EMIT_H
#include "fmt/check.h"

static inline void emit(base_text *t, const char *bytes, size_t count) { base_text_add(t, bytes, count); }
#define EMIT(t, literal) emit((t), (literal), sizeof(literal) - 1)

static inline void emit_int(base_text *t, int64_t value) {
  char bytes[10] = {'\x8a', 8};
  for (int i = 0; i < 8; i++) bytes[2 + i] = (char)((uint64_t)value >> (8 * i));
  emit(t, bytes, sizeof bytes);
}

static inline void emit_str(base_text *t, const char *text) {
  size_t n = strlen(text);
  char head[5] = {'X', (char)n, (char)(n >> 8), 0, 0};
  emit(t, head, sizeof head);
  emit(t, text, n);
}

static inline void emit_global(base_text *t, const char *module, const char *name) {
  base_text_print(t, "c%s\n%s\n", module, name);
}

static inline void emit_ints(base_text *t, int count, const int64_t *values) {
  EMIT(t, "(");
  for (int i = 0; i < count; i++) emit_int(t, values[i]);
  EMIT(t, "t");
}

/* A tensor as _rebuild_tensor_v2 has it. */
typedef struct stored {
  const char *class, *key;
  int64_t count, offset;
  int rank;
  int64_t dims[9], strides[9];
} stored;

static inline void emit_tensor(base_text *t, const stored *s) {
  emit_global(t, "torch._utils", "_rebuild_tensor_v2");
  EMIT(t, "((");
  emit_str(t, "storage");
  emit_global(t, "torch", s->class);
  emit_str(t, s->key);
  emit_str(t, "cuda:0");
  emit_int(t, s->count);
  EMIT(t, "tQ");
  emit_int(t, s->offset);
  emit_ints(t, s->rank, s->dims);
  emit_ints(t, s->rank, s->strides);
  EMIT(t, "\x89");
  emit_global(t, "collections", "OrderedDict");
  EMIT(t, ")RtR");
}

/* {"w": transposed f32 [2,3], "nested": {"tail": the last two elements of the same storage}, "epoch": 3, "flag": bool
 * [2]} */
static inline base_text emit_dict(const stored *first) {
  base_text t = new_text();
  EMIT(&t, "\x80\x02");
  emit_global(&t, "collections", "OrderedDict");
  EMIT(&t, ")Rq\x00(");
  emit_str(&t, "w");
  emit_tensor(&t, first);
  emit_str(&t, "nested");
  EMIT(&t, "}");
  emit_str(&t, "tail");
  emit_tensor(&t, &(stored){"FloatStorage", "0", 6, 4, 1, {2}, {1}});
  EMIT(&t, "s");
  emit_str(&t, "epoch");
  EMIT(&t, "K\x03");
  emit_str(&t, "flag");
  emit_tensor(&t, &(stored){"BoolStorage", "1", 2, 0, 1, {2}, {1}});
  EMIT(&t, "u}");
  emit_str(&t, "_metadata");
  EMIT(&t, "}sb.");
  return t;
}

static const float emit_values[6] = {1, 2, 3, 4, 5, 6};
static const stored emit_good = {"FloatStorage", "0", 6, 0, 2, {2, 3}, {1, 2}};

static inline base_text emit_zip_form(const stored *first) {
  base_text t = new_text(), pickle = emit_dict(first);
  fmt_zip_writer w = {.out = &t, .directory = new_text()};
  assert_int_equal(fmt_zip_add(&w, "net/data.pkl", pickle.at, pickle.length, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&w, "net/byteorder", "little", 6, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&w, "net/data/0", emit_values, sizeof emit_values, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&w, "net/data/1", "\1\2", 2, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&w, "net/version", "3\n", 2, NULL), TD_OK);
  assert_int_equal(fmt_zip_finish(&w, NULL), TD_OK);
  base_text_free(&pickle);
  return t;
}

static inline base_text emit_chain_form(const stored *first) {
  base_text t = new_text(), pickle = emit_dict(first);
  EMIT(&t, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
  EMIT(&t, "\x80\x02M\xe9\x03.");
  EMIT(&t, "\x80\x02}(");
  emit_str(&t, "protocol_version");
  EMIT(&t, "M\xe9\x03");
  emit_str(&t, "little_endian");
  EMIT(&t, "\x88u.");
  emit(&t, pickle.at, pickle.length);
  EMIT(&t, "\x80\x02](");
  emit_str(&t, "1");
  emit_str(&t, "0");
  EMIT(&t, "e.");
  EMIT(&t, "\2\0\0\0\0\0\0\0\1\2");
  EMIT(&t, "\6\0\0\0\0\0\0\0");
  emit(&t, (const char *)emit_values, sizeof emit_values);
  base_text_free(&pickle);
  return t;
}
#endif
