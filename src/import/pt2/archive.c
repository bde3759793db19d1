/* archive.c -- the containers: which member is the program, and where its tensors lie. Three of them: a flat zip with
 * torch.save files inside (2.2 to 2.7), a PT2 archive with torch.save files (2.8), a PT2 archive with raw storages that
 * JSON describes (2.9 on). And no container at all: the program alone, whose tensors the caller gives. */
#include <stdio.h>
#include <string.h>

#include "import/pt2/pt2_priv.h"

enum { MAX_NAME = 512 };

/* The member <folder><name>; NULL: there is none. */
static const fmt_zip_entry *member(const pt2 *p, const char *name) {
  char full[2 * MAX_NAME];
  int length = snprintf(full, sizeof full, "%.*s%s", (int)p->folder.length, p->folder.at, name);
  return length > 0 && (size_t)length < sizeof full ? fmt_zip_find(&p->zip, base_str_of(full)) : NULL;
}

/* Inflated members live as long as the graph: constants may point into them. */
static const uint8_t *read_member(pt2 *p, const fmt_zip_entry *entry) {
  const uint8_t *data = NULL;
  if (!pt2_failed(p)) ir_build_take(&p->b, fmt_zip_read(p->b.graph->arena, &p->zip, entry, &data, p->b.err));
  return pt2_failed(p) ? NULL : data;
}

static void read_json(pt2 *p, const char *what, const fmt_zip_entry *entry, const fmt_json **root) {
  const uint8_t *data = read_member(p, entry);
  if (data) pt2_parse_json(p, what, data, entry->bytes, root);
}

static void open_saved(pt2 *p, pt2_store *store, const char *name) {
  const fmt_zip_entry *entry = member(p, name);
  if (!entry) return;
  store->bytes = read_member(p, entry);
  store->size = entry->bytes;
}

/* ---- the two layouts ---- */

static void open_flat(pt2 *p, const fmt_zip_entry *program) {
  read_json(p, "serialized_exported_program.json", program, &p->root);
  open_saved(p, &p->weights, "serialized_state_dict.pt");
  open_saved(p, &p->constants, "serialized_constants.pt");
}

static void open_store(pt2 *p, pt2_store *store, const char *folder, const char *kind, const char *model) {
  char name[MAX_NAME];
  snprintf(name, sizeof name, "%s%s_%s_config.json", folder, model, kind);
  const fmt_zip_entry *config = member(p, name);
  if (config) read_json(p, name, config, &store->config);
  store->folder = folder;
  snprintf(name, sizeof name, "%s%s.pt", folder, model);
  open_saved(p, store, name);
}

static void refuse_archive(pt2 *p) {
  bool compiled = false;
  char folder[MAX_NAME];
  snprintf(folder, sizeof folder, "%.*sdata/aotinductor/", (int)p->folder.length, p->folder.at);
  for (uint32_t i = 0; i < p->zip.count; i++) compiled |= base_str_starts(p->zip.entries[i].name, folder);
  if (compiled)
    ir_build_fail(&p->b, TD_UNSUPPORTED,
                  "the archive holds code that AOTInductor compiled, and no program; save the ExportedProgram itself "
                  "with torch.export.save");
  else pt2_fail(p, "the archive holds no program (models/model.json)");
}

/* The program "model", or the first one there is. */
static void open_archive(pt2 *p) {
  const fmt_zip_entry *program = member(p, "models/model.json");
  char prefix[MAX_NAME], model[MAX_NAME] = "model";
  int length = snprintf(prefix, sizeof prefix, "%.*smodels/", (int)p->folder.length, p->folder.at);
  for (uint32_t i = 0; !program && i < p->zip.count; i++) {
    base_str name = p->zip.entries[i].name;
    if (!base_str_starts(name, prefix) || !base_str_ends(name, ".json")) continue;
    if (name.length - (size_t)length - 5 >= sizeof model) continue;
    snprintf(model, sizeof model, "%.*s", (int)(name.length - (size_t)length - 5), name.at + length);
    program = &p->zip.entries[i];
  }
  if (!program) {
    refuse_archive(p);
    return;
  }
  read_json(p, "the program", program, &p->root);
  open_store(p, &p->weights, "data/weights/", "weights", model);
  open_store(p, &p->constants, "data/constants/", "constants", model);
}

static void check_byte_order(pt2 *p) {
  const fmt_zip_entry *entry = member(p, "byteorder");
  const uint8_t *order = entry ? read_member(p, entry) : NULL;
  if (order && entry->bytes >= 3 && memcmp(order, "big", 3) == 0)
    ir_build_fail(&p->b, TD_UNSUPPORTED, "the file was saved on a big-endian machine");
}

static void check_version(pt2 *p) {
  int64_t major = 0;
  if (pt2_failed(p)) return;
  if (!fmt_json_is(p->root, FMT_JSON_OBJECT)) pt2_fail(p, "the program is no JSON object");
  const fmt_json *version = fmt_json_get(p->root, "schema_version");
  if (pt2_int(fmt_json_get(version, "major"), &major) && major == 8) return;
  ir_build_fail(&p->b, TD_UNSUPPORTED, "the program is of schema %lld; this reads 8, which torch writes since 2.5",
                (long long)major);
}

void pt2_open(pt2 *p) {
  const uint8_t *bytes = p->source->bytes;
  if (p->source->size && bytes[0] == '{') {
    pt2_parse_json(p, "the program", bytes, p->source->size, &p->root);
    check_version(p);
    return;
  }
  p->is_zip = true;
  ir_build_take(&p->b, fmt_zip_open(p->arena, bytes, p->source->size, &p->zip, p->b.err));
  if (pt2_failed(p)) return;
  const fmt_zip_entry *flat = member(p, "serialized_exported_program.json");
  base_str first = p->zip.count ? p->zip.entries[0].name : (base_str){"", 0};
  const char *slash = first.length ? memchr(first.at, '/', first.length) : NULL;
  if (flat) {
    open_flat(p, flat);
  } else {
    if (slash && slash - first.at < MAX_NAME - 100) p->folder = (base_str){first.at, (size_t)(slash + 1 - first.at)};
    check_byte_order(p);
    open_archive(p);
  }
  check_version(p);
}

void pt2_close(pt2 *p) {
  fmt_state_dict_free(p->weights.dict);
  fmt_state_dict_free(p->constants.dict);
}

/* ---- tensors ---- */

/* Sizes, strides or the offset of a TensorMeta: numbers alone. */
static bool plain_size(const fmt_json *sym_int, int64_t *value) {
  const char *tag;
  const fmt_json *inner = pt2_union(sym_int, &tag);
  return strcmp(tag, "as_int") == 0 && pt2_int(inner, value);
}

/* Complex numbers as what they are made of: a last axis of 2. */
static bool take_apart(base_tensor *t, int64_t *offset) {
  bool fits = t->rank < BASE_MAX_RANK && base_mul_i64(*offset, 2, offset);
  for (int32_t i = 0; fits && i < t->rank; i++) fits = base_mul_i64(t->strides[i], 2, &t->strides[i]);
  if (!fits) return false;
  t->dims[t->rank] = 2;
  t->strides[t->rank++] = 1;
  return true;
}

static bool read_sizes(pt2 *p, const fmt_json *meta, base_tensor *t, int64_t *offset) {
  const fmt_json *sizes = fmt_json_get(meta, "sizes"), *strides = fmt_json_get(meta, "strides");
  size_t rank = fmt_json_count(sizes);
  if (rank > BASE_MAX_RANK || fmt_json_count(strides) != rank) return false;
  t->rank = (int32_t)rank;
  for (size_t i = 0; i < rank; i++)
    if (!plain_size(fmt_json_at(sizes, i), &t->dims[i]) || t->dims[i] < 0 ||
        !plain_size(fmt_json_at(strides, i), &t->strides[i]) || t->strides[i] < 0)
      return false;
  const bool is_complex = pt2_is_complex(p, meta);
  const int64_t number = pt2_scalar_type(p, fmt_json_get(meta, "dtype"));
  t->dtype = aten_dtype(p->a, is_complex ? aten_part_type(number) : number);
  if (!plain_size(fmt_json_get(meta, "storage_offset"), offset) || *offset < 0 || pt2_failed(p)) return false;
  return !is_complex || take_apart(t, offset);
}

/* Does what sizes, strides and offset reach lie within `bytes`? */
static bool reaches(const base_tensor *t, int64_t offset, size_t bytes) {
  int64_t last = offset, step, count;
  size_t need;
  if (!base_numel(t->rank, t->dims, &count)) return false;
  if (count == 0) return true;
  for (int32_t i = 0; i < t->rank; i++)
    if (!base_mul_i64(t->dims[i] - 1, t->strides[i], &step) || !base_add_i64(last, step, &last)) return false;
  return last < INT64_MAX && base_dtype_bytes(t->dtype, last + 1, &need) && need <= bytes;
}

/* A tensor over a raw storage. */
static void read_raw(pt2 *p, const pt2_store *store, const char *name, const fmt_json *entry, base_tensor *t) {
  const char *path = pt2_text(entry, "path_name");
  char full[MAX_NAME];
  int64_t offset = 0, count = 0;
  if (fmt_json_is(fmt_json_get(entry, "use_pickle"), FMT_JSON_TRUE))
    ir_build_fail(&p->b, TD_UNSUPPORTED, "the tensor %s is of a class of its own, which only Python can read", name);
  if (!path || snprintf(full, sizeof full, "%s%s", store->folder, path) >= (int)sizeof full ||
      !read_sizes(p, fmt_json_get(entry, "tensor_meta"), t, &offset)) {
    pt2_fail(p, "the tensor %s is not described as it should be", name);
    return;
  }
  const fmt_zip_entry *record = member(p, full);
  const uint8_t *data = record ? read_member(p, record) : NULL;
  if (!record) pt2_fail(p, "the archive has no member %s, where the tensor %s lies", full, name);
  if (pt2_failed(p)) return;
  if (base_numel(t->rank, t->dims, &count) && count && record->bytes == 0)
    pt2_fail(p, "the tensor %s was saved without its contents: it was a fake tensor", name);
  if (!reaches(t, offset, record->bytes)) pt2_fail(p, "the tensor %s reaches beyond its storage", name);
  if (!pt2_failed(p)) t->data = (uint8_t *)(uintptr_t)data + (size_t)offset * (base_dtype(t->dtype)->bits / 8u);
}

static bool find_saved(pt2 *p, pt2_store *store, const char *name, base_tensor *t) {
  if (!store->bytes || pt2_failed(p)) return false;
  if (!store->dict) {
    td_error err = {0};
    td_status status =
        fmt_state_dict_open(base_arena_allocator(p->arena), store->bytes, store->size, &store->dict, &err);
    if (status != TD_OK) {
      *p->b.err = err;
      ir_build_take(&p->b, status);
      return false;
    }
  }
  const fmt_named *found = fmt_state_dict_find(store->dict, base_str_of(name));
  if (found) *t = found->tensor;
  return found != NULL;
}

static bool find_given(const pt2 *p, const char *name, base_tensor *t) {
  for (uint32_t i = 0; i < p->source->weight_count; i++) {
    if (strcmp(p->source->weights[i].name, name) != 0) continue;
    *t = p->source->weights[i].tensor;
    return true;
  }
  return false;
}

static bool find_in(pt2 *p, pt2_store *store, const char *name, base_tensor *t) {
  const fmt_json *entry = fmt_json_get(fmt_json_get(store->config, "config"), name);
  if (entry) read_raw(p, store, name, entry, t);
  return entry != NULL || find_saved(p, store, name, t);
}

static bool same_tensor(const base_tensor *x, const base_tensor *y) {
  return x->data == y->data && x->dtype == y->dtype && x->rank == y->rank &&
         memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0 &&
         memcmp(x->strides, y->strides, (size_t)x->rank * sizeof *x->strides) == 0;
}

/* A copy in the graph's memory; bools become 0 or 1. */
static void copy_elements(pt2 *p, base_tensor *t) {
  uint8_t *data = ir_build_alloc(&p->b, base_tensor_bytes(t));
  if (!data) return;
  base_tensor_pack(data, t);
  *t = base_tensor_of(data, t->dtype, t->rank, t->dims);
  int64_t count = t->dtype == TD_BOOL ? base_tensor_numel(t) : 0;
  for (int64_t i = 0; i < count; i++) data[i] = data[i] != 0;
}

/* Elements stay where they are, but for those that would not outlive the import (of an opened dictionary). */
static ir_value add_constant(pt2 *p, const char *name, base_tensor t, bool stays) {
  ir_value value = IR_NO_VALUE;
  const char *at = t.data, *own = p->source->bytes;
  bool in_file = at >= own && at <= own + p->source->size;
  if (t.dtype == TD_BOOL || !(stays || in_file)) copy_elements(p, &t);
  if (!pt2_failed(p)) ir_build_take(&p->b, ir_add_constant(p->b.graph, &t, name, &value, p->b.err));
  return value;
}

ir_value pt2_tensor(pt2 *p, const char *name, bool constant) {
  base_tensor t = {0};
  pt2_store *first = constant ? &p->constants : &p->weights, *second = constant ? &p->weights : &p->constants;
  bool given = find_given(p, name, &t);
  if (pt2_failed(p)) return IR_NO_VALUE;
  if (!given && !find_in(p, first, name, &t) && !find_in(p, second, name, &t))
    pt2_fail(p, "the program uses the tensor %s, which the archive does not hold", name);
  if (pt2_failed(p)) return IR_NO_VALUE;
  const base_str bytes = {(const char *)&t.data, sizeof t.data};
  const uint32_t *known = base_map_get(&p->shared_at, bytes);
  for (uint32_t i = known ? *known : 0; i; i = p->shared.at[i - 1].next)
    if (same_tensor(&p->shared.at[i - 1].tensor, &t)) return p->shared.at[i - 1].value;
  bool raw = !given && (first->config || second->config);
  ir_value value = add_constant(p, name, t, given || raw);
  if (pt2_failed(p)) return IR_NO_VALUE;
  pt2_shared *kept = base_vec_push(p->arena, &p->shared);
  const char *key = kept ? base_arena_copy(p->arena, bytes.at, bytes.length) : NULL;
  if (kept) *kept = (pt2_shared){t, value, known ? *known : 0};
  if (!key || !base_map_put(&p->shared_at, p->arena, (base_str){key, bytes.length}, p->shared.count, NULL))
    ir_build_take(&p->b, base_no_memory(p->b.err, "a constant"));
  return value;
}
