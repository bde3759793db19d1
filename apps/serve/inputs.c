/* inputs.c -- the tensors of KServe's ModelInferRequest: typed contents, or raw ones, which stay where they came. */
#include <stdio.h>
#include <string.h>

#include "fmt/wire.h"
#include "h2.h"

static td_status bad(td_error *err, const char *name, const char *text) {
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "%s", text);
}

/* Which field of InferTensorContents holds elements of a type, and how. */
static const struct {
  td_dtype dtype;
  uint32_t field;
  fmt_wire_type wire;
} contents[] = {{TD_BOOL, 1, FMT_VARINT}, {TD_I8, 2, FMT_VARINT},   {TD_I16, 2, FMT_VARINT}, {TD_I32, 2, FMT_VARINT},
                {TD_I64, 3, FMT_VARINT},  {TD_U8, 4, FMT_VARINT},   {TD_U16, 4, FMT_VARINT}, {TD_U32, 4, FMT_VARINT},
                {TD_U64, 5, FMT_VARINT},  {TD_F32, 6, FMT_FIXED32}, {TD_F64, 7, FMT_FIXED64}};

static bool store(const td_tensor *t, int64_t at, uint64_t bits) {
  if (t->dtype == TD_F32) {
    const uint32_t half = (uint32_t)bits;
    memcpy((char *)t->data + 4 * at, &half, 4);
  } else if (t->dtype == TD_F64 || t->dtype == TD_U64) {
    memcpy((char *)t->data + 8 * at, &bits, 8);
  } else {
    const int64_t value = t->dtype == TD_I8 || t->dtype == TD_I16 || t->dtype == TD_I32 ? (int32_t)bits : (int64_t)bits;
    base_store_i64(t->dtype, t->data, at, value);
    return base_load_i64(t->dtype, t->data, at) == value;
  }
  return true;
}

static td_status read_contents(serve_job *job, fmt_wire w, const char *name, td_tensor *t, int64_t count,
                               td_error *err) {
  size_t bytes, row = 0;
  int64_t at = 0;
  while (row < sizeof contents / sizeof *contents && contents[row].dtype != t->dtype) row++;
  if (row == sizeof contents / sizeof *contents) return bad(err, name, "is of a type that comes as raw contents alone");
  if (!base_dtype_bytes(t->dtype, count, &bytes) || bytes > 8 * job->count)
    return bad(err, name, "contents do not fit its shape");
  t->data = base_arena_alloc_uncleared(job->arena, bytes + 1, 64);
  if (!t->data) return base_no_memory(err, "an input");
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire values;
    TRY(fmt_wire_next(&w, &f, err));
    if (f.number != contents[row].field) return bad(err, name, "contents are of another type than its datatype");
    TRY(fmt_field_scalars(&f, contents[row].wire, "contents", &values, err));
    while (fmt_wire_more(&values)) {
      uint64_t bits;
      TRY(fmt_wire_scalar(&values, contents[row].wire, &bits, err));
      if (at == count || !store(t, at++, bits)) return bad(err, name, "contents do not fit its shape and datatype");
    }
  }
  return at == count ? TD_OK : bad(err, name, "contents do not fit its shape and datatype");
}

static td_status read_dims(const fmt_field *f, td_tensor *t, td_error *err) {
  fmt_wire values;
  TRY(fmt_field_scalars(f, FMT_VARINT, "shape", &values, err));
  while (fmt_wire_more(&values)) {
    uint64_t size;
    TRY(fmt_wire_scalar(&values, FMT_VARINT, &size, err));
    if (t->rank == TD_MAX_RANK || size > INT64_MAX) return bad(err, NULL, "a shape is of other things than sizes");
    t->dims[t->rank++] = (int64_t)size;
  }
  return TD_OK;
}

typedef struct given {
  char name[256];
  td_tensor t;
  fmt_wire contents;
  bool has_contents;
} given;

static td_status read_given(fmt_wire w, given *g, td_error *err) {
  *g = (given){0};
  while (fmt_wire_more(&w)) {
    fmt_field f;
    base_str text;
    TRY(fmt_wire_next(&w, &f, err));
    if (f.number == 1) {
      TRY(fmt_field_str(&f, "a name", &text, err));
      if (text.length >= sizeof g->name) return bad(err, NULL, "an input's name is too long");
      memcpy(g->name, text.at, text.length);
    } else if (f.number == 2) {
      TRY(fmt_field_str(&f, "a datatype", &text, err));
      g->t.dtype = serve_dtype(text);
    } else if (f.number == 3) {
      TRY(read_dims(&f, &g->t, err));
    } else if (f.number == 5) {
      TRY(fmt_field_message(&f, "contents", &g->contents, err));
      g->has_contents = true;
    }
  }
  return g->t.dtype == TD_INVALID ? bad(err, g->name, "has no datatype that is known") : TD_OK;
}

/* The next raw contents, a view of the message; false: there are no more. */
static bool next_raw(fmt_wire *w, base_str *raw, td_error *err) {
  while (fmt_wire_more(w)) {
    fmt_field f;
    if (fmt_wire_next(w, &f, err) != TD_OK) return false;
    if (f.number == 7 && f.type == FMT_BYTES) return fmt_field_str(&f, "raw contents", raw, err) == TD_OK;
  }
  return false;
}

/* BYTES: elements of `raw`, or of typed contents (field 8) where that is NULL. */
static td_status read_strings(serve_job *job, size_t index, given *g, const base_str *raw, int64_t count,
                              td_error *err) {
  td_string *items = NULL;
  int64_t at = 0;
  job->inputs[index] = (td_tensor){0};
  if (raw) TRY(serve_split_strings(job->arena, g->name, *raw, count, &items, err));
  else if ((uint64_t)count <= job->count) items = base_new(job->arena, td_string, (size_t)count + 1);
  if (!items) return bad(err, g->name, "contents do not fit its shape");
  while (!raw && fmt_wire_more(&g->contents)) {
    fmt_field f;
    TRY(fmt_wire_next(&g->contents, &f, err));
    if (f.number != 8 || f.type != FMT_BYTES || at == count)
      return bad(err, g->name, "contents do not fit its shape and datatype");
    items[at++] = (td_string){(const char *)f.bytes.at, fmt_wire_left(&f.bytes)};
  }
  if (!raw && at != count) return bad(err, g->name, "contents do not fit its shape and datatype");
  g->t.data = items;
  return serve_give_strings(job, index, &g->t, NULL, err);
}

/* All inputs of a request have typed contents, or all have raw ones. */
typedef enum form { NOT_KNOWN, TYPED, RAW } form;

/* One input, of typed contents or of the next raw ones. */
static td_status read_input(serve_job *job, fmt_wire message, fmt_wire *raws, form *seen, td_error *err) {
  given g;
  size_t index, bytes;
  int64_t count;
  base_str raw;
  TRY(read_given(message, &g, err));
  TRY(td_model_find_input(job->version->model, g.name, &index, err));
  td_tensor *t = &job->inputs[index];
  if (t->data) return bad(err, base_arena_text(job->arena, g.name), "is given twice");
  *t = g.t;
  if (!base_numel(t->rank, t->dims, &count) || !base_dtype_bytes(t->dtype, count, &bytes))
    return base_fail(err, TD_BAD_ARGUMENT, g.name, -1, "has a shape too large");
  const form own = g.has_contents && fmt_wire_more(&g.contents) ? TYPED : RAW;
  if (*seen != NOT_KNOWN && *seen != own)
    return base_fail(err, TD_BAD_ARGUMENT, g.name, -1, "contents and raw contents are mixed");
  *seen = own;
  if (g.t.dtype == TD_STRING) {
    if (own == RAW && !next_raw(raws, &raw, err)) return base_fail(err, TD_BAD_ARGUMENT, g.name, -1, "has no contents");
    return read_strings(job, index, &g, own == RAW ? &raw : NULL, count, err);
  }
  if (own == TYPED) {
    return read_contents(job, g.contents, g.name, t, count, err);
  }
  if (!next_raw(raws, &raw, err)) return base_fail(err, TD_BAD_ARGUMENT, g.name, -1, "has no contents");
  if (raw.length != bytes) return base_fail(err, TD_BAD_ARGUMENT, g.name, -1, "raw contents do not fit its shape");
  t->data = (void *)(uintptr_t)raw.at; /* nobody writes to it; inputs may have any alignment */
  for (size_t i = 0; t->dtype == TD_BOOL && i < bytes; i++)
    if (((uint8_t *)t->data)[i] > 1) return base_fail(err, TD_BAD_ARGUMENT, g.name, -1, "a BOOL is 0 or 1");
  return TD_OK;
}

/* A parameter of a request, as a number (uint64_param, int64_param, bool_param) or a text. */
typedef struct parameter {
  base_str key, text; /* text.at == NULL: it is a number */
  uint64_t number;
} parameter;

static td_status read_parameter(fmt_wire entry, parameter *p, td_error *err) {
  *p = (parameter){.number = 0};
  while (fmt_wire_more(&entry)) {
    fmt_field f, inner;
    fmt_wire value;
    TRY(fmt_wire_next(&entry, &f, err));
    if (f.number == 1) TRY(fmt_field_str(&f, "a parameter", &p->key, err));
    if (f.number != 2) continue;
    TRY(fmt_field_message(&f, "a parameter", &value, err));
    while (fmt_wire_more(&value)) {
      TRY(fmt_wire_next(&value, &inner, err));
      if (inner.type == FMT_VARINT && (inner.number < 3 || inner.number == 5)) p->number = inner.value;
      if (inner.number == 3) TRY(fmt_field_str(&inner, "a parameter", &p->text, err));
    }
  }
  return TD_OK;
}

/* Microseconds, as Triton's clients give them. */
static td_status read_limit(serve_job *job, fmt_wire entry, td_error *err) {
  parameter p;
  TRY(read_parameter(entry, &p, err));
  if (base_str_is(p.key, "timeout") && p.number && p.number < SERVE_MOST_TIMEOUT_US) serve_limit(job, p.number * 1000u);
  return TD_OK;
}

/* What the parameters say of a sequence. `number`: room for its id, if it is one. */
static td_status find_sequence(const serve_job *job, char *number, base_str *id, bool *starts, bool *ends,
                               td_error *err) {
  for (fmt_wire w = fmt_wire_of(job->body, job->count); fmt_wire_more(&w);) {
    fmt_field f;
    fmt_wire entry;
    parameter p;
    TRY(fmt_wire_next(&w, &f, err));
    if (f.number != 4) continue;
    TRY(fmt_field_message(&f, "a parameter", &entry, err));
    TRY(read_parameter(entry, &p, err));
    if (base_str_is(p.key, "sequence_start")) *starts = p.number != 0;
    if (base_str_is(p.key, "sequence_end")) *ends = p.number != 0;
    if (!base_str_is(p.key, "sequence_id")) continue;
    *id = p.text;
    if (!p.text.at) *id = (base_str){number, (size_t)sprintf(number, "%llu", (unsigned long long)p.number)};
  }
  return TD_OK;
}

bool serve_grpc_name(serve_job *job) {
  base_str id = {NULL, 0};
  bool starts = false, ends = false;
  td_error err = {.offset = -1};
  char number[24];
  if (find_sequence(job, number, &id, &starts, &ends, &err) == TD_OK) return serve_name_sequence(job, id, starts, ends);
  serve_refuse(job, 400, "the message is damaged: %s", err.text);
  return false;
}

td_status serve_grpc_read(serve_job *job, td_error *err) {
  fmt_wire w = fmt_wire_of(job->body, job->count), raws = w;
  base_str raw;
  form seen = NOT_KNOWN;
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire message;
    TRY(fmt_wire_next(&w, &f, err));
    if (f.number != 4 && f.number != 5) continue;
    TRY(fmt_field_message(&f, "an input", &message, err));
    if (f.number == 4) TRY(read_limit(job, message, err));
    if (f.number == 4) continue;
    TRY(read_input(job, message, &raws, &seen, err));
  }
  return next_raw(&raws, &raw, err) ? bad(err, NULL, "there are more raw contents than inputs") : TD_OK;
}
