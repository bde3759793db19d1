/* npy.c -- .npy: a magic number, a Python dictionary as text, the elements. Writing gives version 1.0. */
#include "fmt/npy.h"
#include "fmt/bytes_priv.h"

#include <stdio.h>

/* Letters of a descr: "<f4" is kind f of 4 bytes. Where two rows have the same descr, the first is what reading gives.
 */
static const struct {
  char kind;
  uint8_t bytes;
  td_dtype dtype;
} descrs[] = {{'b', 1, TD_BOOL}, {'i', 1, TD_I8},  {'i', 2, TD_I16}, {'i', 4, TD_I32},
              {'i', 8, TD_I64},  {'u', 1, TD_U8},  {'u', 2, TD_U16}, {'u', 4, TD_U32},
              {'u', 8, TD_U64},  {'f', 2, TD_F16}, {'f', 4, TD_F32}, {'f', 8, TD_F64}};
enum { DESCRS = sizeof descrs / sizeof *descrs };

/* Cursor over the header, and what it said. */
typedef struct header {
  const uint8_t *file;
  const char *at, *end;
  base_str descr;
  bool has_descr, has_order, has_shape, fortran;
  bool swapped;
  bool unpack; /* one element per byte, of a type with fewer bits */
  base_tensor tensor;
} header;

static td_status bad_header(const header *h, const char *what, td_error *err) {
  return base_fail(err, TD_BAD_FILE, NULL, (const uint8_t *)h->at - h->file, "the .npy header has no %s here", what);
}

static void skip_space(header *h) {
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t' || *h->at == '\r')) h->at++;
}

static bool take(header *h, char c) {
  skip_space(h);
  if (h->at == h->end || *h->at != c) return false;
  h->at++;
  return true;
}

/* 'text' or "text", no escapes. */
static td_status take_string(header *h, base_str *out, td_error *err) {
  char quote = take(h, '\'') ? '\'' : take(h, '"') ? '"' : 0;
  if (!quote) return bad_header(h, "string", err);
  const char *start = h->at, *stop = memchr(start, quote, (size_t)(h->end - start));
  if (!stop || memchr(start, '\\', (size_t)(stop - start))) return bad_header(h, "plain string", err);
  *out = (base_str){start, (size_t)(stop - start)};
  h->at = stop + 1;
  return TD_OK;
}

static bool take_word(header *h, const char *word) {
  size_t length = strlen(word);
  skip_space(h);
  if ((size_t)(h->end - h->at) < length || memcmp(h->at, word, length) != 0) return false;
  h->at += length;
  return true;
}

static td_status take_number(header *h, int64_t *out, td_error *err) {
  skip_space(h);
  const char *start = h->at;
  while (h->at < h->end && *h->at >= '0' && *h->at <= '9') h->at++;
  if (h->at == start || !base_str_int((base_str){start, (size_t)(h->at - start)}, out))
    return bad_header(h, "size that fits 63 bits", err);
  if (h->at < h->end && *h->at == 'L') h->at++; /* written by Python 2 */
  return TD_OK;
}

/* "()", "(3,)", "(2, 3)", "(2, 3,)" */
static td_status take_shape(header *h, td_error *err) {
  base_tensor *t = &h->tensor;
  if (!take(h, '(')) return bad_header(h, "tuple", err);
  t->rank = 0;
  while (!take(h, ')')) {
    if (t->rank == BASE_MAX_RANK)
      return base_fail(err, TD_UNSUPPORTED, NULL, (const uint8_t *)h->at - h->file,
                       "the array has more than %d dimensions", BASE_MAX_RANK);
    TRY(take_number(h, &t->dims[t->rank++], err));
    bool comma = take(h, ',');
    skip_space(h);
    bool closes = h->at < h->end && *h->at == ')';
    if (!comma && (!closes || t->rank == 1)) return bad_header(h, "comma", err);
  }
  h->has_shape = true;
  return TD_OK;
}

static td_status take_entry(header *h, td_error *err) {
  base_str key;
  TRY(take_string(h, &key, err));
  if (!take(h, ':')) return bad_header(h, "colon", err);
  if (base_str_is(key, "descr") && !h->has_descr) {
    skip_space(h);
    if (h->at < h->end && *h->at == '[')
      return base_fail(err, TD_UNSUPPORTED, NULL, -1, "arrays of structs (a list as descr) are not supported");
    h->has_descr = true;
    return take_string(h, &h->descr, err);
  }
  if (base_str_is(key, "fortran_order") && !h->has_order) {
    h->fortran = take_word(h, "True");
    h->has_order = h->fortran || take_word(h, "False");
    return h->has_order ? TD_OK : bad_header(h, "True or False", err);
  }
  if (base_str_is(key, "shape") && !h->has_shape) return take_shape(h, err);
  return base_fail(err, TD_BAD_FILE, NULL, (const uint8_t *)h->at - h->file,
                   "the .npy header has an unknown or repeated key");
}

static td_status take_dict(header *h, td_error *err) {
  if (!take(h, '{')) return bad_header(h, "dictionary", err);
  while (!take(h, '}')) {
    TRY(take_entry(h, err));
    bool comma = take(h, ',');
    skip_space(h);
    if (!comma && (h->at == h->end || *h->at != '}')) return bad_header(h, "comma", err);
  }
  skip_space(h);
  if (h->at != h->end) return bad_header(h, "end", err);
  if (!h->has_descr || !h->has_order || !h->has_shape)
    return base_fail(err, TD_BAD_FILE, NULL, -1, "the .npy header lacks descr, fortran_order or shape");
  return TD_OK;
}

static td_status refuse_descr(const header *h, const char *why, td_error *err) {
  return base_fail(err, TD_UNSUPPORTED, NULL, -1, "arrays of type '%.*s' are not supported: %s",
                   (int)(h->descr.length < 40 ? h->descr.length : 40), h->descr.at, why);
}

/* A type without a name in NumPy: `raw_as` must have that size. */
static td_status raw_descr(header *h, int64_t bytes, td_dtype raw_as, td_error *err) {
  int64_t bits = raw_as == TD_STRING ? 0 : base_dtype(raw_as)->bits;
  if (bits == 0) return refuse_descr(h, "bytes without a type; say which dtype they are", err);
  h->unpack = bits < 8;
  if (bytes != (bits + 7) / 8) return refuse_descr(h, "the expected dtype has another size", err);
  h->tensor.dtype = raw_as;
  return TD_OK;
}

static td_status read_descr(header *h, td_dtype raw_as, td_error *err) {
  base_str d = h->descr;
  int64_t bytes;
  if (d.length && memchr("<>|=", d.at[0], 4)) {
    h->swapped = d.at[0] == '>';
    d = (base_str){d.at + 1, d.length - 1};
  }
  if (d.length && d.at[0] == 'O') return refuse_descr(h, "they hold Python objects", err);
  if (d.length && memchr("SUa", d.at[0], 3)) return refuse_descr(h, "strings; use a .pb file", err);
  if (d.length < 2 || !base_str_int((base_str){d.at + 1, d.length - 1}, &bytes))
    return refuse_descr(h, "the type is not known", err);
  for (size_t i = 0; i < DESCRS; i++)
    if (descrs[i].kind == d.at[0] && descrs[i].bytes == bytes) {
      h->tensor.dtype = descrs[i].dtype;
      h->swapped &= bytes > 1;
      return TD_OK;
    }
  if (d.at[0] == 'V' || (d.at[0] == 'f' && bytes == 1)) {
    TRY(raw_descr(h, bytes, raw_as, err));
    h->swapped &= bytes > 1;
    return TD_OK;
  }
  return refuse_descr(
      h,
      d.at[0] == 'c' ? "they are complex; save the parts, numpy.stack((x.real, x.imag), -1)" : "the type is not known",
      err);
}

static uint8_t get_packed(const void *data, unsigned bits, int64_t i) {
  int64_t bit = i * bits;
  return (uint8_t)((unsigned)((const uint8_t *)data)[bit / 8] >> (bit % 8) & ((1u << bits) - 1));
}

/* Packs one element per byte into the bits of the dtype, low bits first; `offset` walks the file's order. */
static void put_packed(uint8_t *to, unsigned bits, int64_t i, uint8_t value) {
  int64_t bit = i * bits;
  to[bit / 8] = (uint8_t)(to[bit / 8] | (value & ((1u << bits) - 1)) << (bit % 8));
}

/* Copies from the file's order and byte order into C order. `to` is zeroed. */
static void convert(const header *h, const uint8_t *from, uint8_t *to) {
  const base_tensor *t = &h->tensor;
  int64_t strides[BASE_MAX_RANK], step = 1, at = 0;
  memcpy(strides, t->strides, sizeof strides);
  for (int32_t i = 0; h->fortran && i < t->rank; i++) {
    strides[i] = step;
    step *= t->dims[i];
  }
  unsigned bits = base_dtype(t->dtype)->bits;
  size_t each = h->unpack ? 1 : bits / 8;
  base_walk w;
  base_walk_start(&w, t->rank, t->dims, 1, (const int64_t *const[]){strides});
  do {
    const uint8_t *element = from + (size_t)w.offset[0] * each;
    if (h->unpack) put_packed(to, bits, at, *element);
    for (size_t b = 0; b < each && !h->unpack; b++) to[(size_t)at * each + b] = element[h->swapped ? each - 1 - b : b];
    at++;
  } while (base_walk_next(&w));
}

static td_status read_array(base_arena *arena, header *h, const uint8_t *data, size_t size, td_error *err) {
  base_tensor *t = &h->tensor;
  int64_t numel;
  size_t bytes;
  if (!fmt_tensor_size(t->dtype, t->rank, t->dims, &numel, &bytes))
    return base_fail(err, TD_BAD_FILE, NULL, -1, "the array's shape is larger than memory");
  size_t stored = h->unpack ? (size_t)numel : bytes;
  if (stored != size)
    return base_fail(err, TD_BAD_FILE, NULL, data - h->file, "shape and type ask for %zu bytes of data, there are %zu",
                     stored, size);
  base_strides(t->rank, t->dims, t->strides);
  t->data = fmt_view(data);
  if (numel > 0 && (h->unpack || h->swapped || (h->fortran && t->rank > 1))) {
    t->data = base_arena_alloc(arena, bytes);
    if (t->data) convert(h, data, t->data);
  }
  if (t->data && t->dtype == TD_BOOL) t->data = fmt_bools(arena, t->data, bytes);
  return t->data ? TD_OK : base_no_memory(err, "array");
}

td_status fmt_npy_read(base_arena *arena, const void *bytes, size_t size, td_dtype raw_as, base_tensor *out,
                       td_error *err) {
  const uint8_t *file = bytes;
  if (size < 10 || memcmp(file, "\x93NUMPY", 6) != 0)
    return base_fail(err, TD_BAD_FILE, NULL, 0, "this is no .npy file");
  if (file[6] < 1 || file[6] > 3)
    return base_fail(err, TD_UNSUPPORTED, NULL, 6, ".npy version %d is not known", (int)file[6]);
  size_t start = file[6] == 1 ? 10 : 12;
  if (size < start) return base_fail(err, TD_BAD_FILE, NULL, 8, "the .npy file ends inside its header");
  size_t length = file[6] == 1 ? fmt_le16(file + 8) : fmt_le32(file + 8);
  if (length > size - start)
    return base_fail(err, TD_BAD_FILE, NULL, 8, "the .npy header claims %zu bytes where %zu are left", length,
                     size - start);
  header h = {.file = file, .at = (const char *)file + start};
  h.end = h.at + length;
  TRY(take_dict(&h, err));
  TRY(read_descr(&h, raw_as, err));
  TRY(read_array(arena, &h, file + start + length, size - start - length, err));
  *out = h.tensor;
  return TD_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void put_header(base_text *out, const base_tensor *t) {
  char dict[64 + BASE_MAX_RANK * 24], descr[8];
  unsigned bytes = (base_dtype(t->dtype)->bits + 7u) / 8;
  snprintf(descr, sizeof descr, "%cV%u", bytes > 1 ? '<' : '|', bytes);
  for (size_t i = 0; i < DESCRS; i++)
    if (descrs[i].dtype == t->dtype)
      snprintf(descr, sizeof descr, "%c%c%u", bytes > 1 ? '<' : '|', descrs[i].kind, bytes);
  size_t n = (size_t)snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (int32_t i = 0; i < t->rank; i++)
    n += (size_t)snprintf(dict + n, sizeof dict - n, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
  n += (size_t)snprintf(dict + n, sizeof dict - n, "%s), }", t->rank == 1 ? "," : "");
  size_t padded = (10 + n + 1 + 63) / 64 * 64 - 10;
  char prefix[10] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)(padded & 255), (char)(padded >> 8)};
  base_text_add(out, prefix, sizeof prefix);
  base_text_add(out, dict, n);
  base_text_print(out, "%*s\n", (int)(padded - n - 1), "");
}

/* One byte per element; signed ones keep their sign, as ml_dtypes has them. */
static void put_unpacked(base_text *out, const base_tensor *t) {
  int64_t count = base_tensor_numel(t);
  unsigned bits = base_dtype(t->dtype)->bits;
  bool sign = base_is_int(t->dtype) && base_dtype(t->dtype)->is_signed;
  for (int64_t i = 0; i < count; i++) {
    unsigned value = get_packed(t->data, bits, i);
    if (sign && value >> (bits - 1)) value |= 0xFFu << bits;
    char byte = (char)(value & 255);
    base_text_add(out, &byte, 1);
  }
}

td_status fmt_npy_write(base_text *out, const base_tensor *tensor, td_error *err) {
  if (tensor->dtype == TD_STRING || base_dtype(tensor->dtype)->bits == 0)
    return base_fail(err, TD_UNSUPPORTED, NULL, -1, "a tensor of %s cannot be written as .npy",
                     td_dtype_name(tensor->dtype));
  size_t bytes = base_tensor_bytes(tensor);
  put_header(out, tensor);
  if (base_dtype(tensor->dtype)->bits < 8) {
    put_unpacked(out, tensor);
  } else if (base_tensor_contiguous(tensor) || bytes == 0) {
    base_text_add(out, tensor->data, bytes);
  } else {
    void *packed = base_alloc(out->allocator, bytes);
    if (!packed) return base_no_memory(err, "array to write");
    base_tensor_pack(packed, tensor);
    base_text_add(out, packed, bytes);
    base_free(out->allocator, packed, bytes);
  }
  return out->failed ? base_no_memory(err, "array to write") : TD_OK;
}
