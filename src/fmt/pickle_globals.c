/* The globals a pickle may name, and what calling them builds. A name that is no row here is refused. */
#include "fmt/pickle_priv.h"

/* Argument `index`, or NULL when there are fewer or it is of another kind. */
static fmt_object *arg(const fmt_objects *args, uint32_t index, fmt_object_kind kind) {
  return index < args->count && args->at[index]->kind == kind ? args->at[index] : NULL;
}

static td_status bad_call(fmt_machine *m, const char *what) {
  return fmt_machine_fail(m, TD_BAD_FILE, "the arguments of %s are not what they should be", what);
}

static td_status made(fmt_machine *m, fmt_object_kind kind, fmt_object **out) {
  *out = fmt_new_object(m, kind);
  return *out ? TD_OK : base_no_memory(m->err, "pickle");
}

static td_status make_dict(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  if (args->count) return bad_call(m, "OrderedDict");
  return made(m, FMT_OBJ_DICT, out);
}

static td_status make_device(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  const fmt_object *name = arg(args, 0, FMT_OBJ_STR);
  if (!name) return bad_call(m, "torch.device");
  TRY(made(m, FMT_OBJ_DEVICE, out));
  (*out)->u.str = name->u.str;
  return TD_OK;
}

static td_status make_complex(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  if (args->count != 2 || !arg(args, 0, FMT_OBJ_FLOAT) || !arg(args, 1, FMT_OBJ_FLOAT)) return bad_call(m, "complex");
  TRY(made(m, FMT_OBJ_COMPLEX, out));
  (*out)->u.items = *args;
  return TD_OK;
}

/* The first argument is the value: a list, which gets `tag`. */
static td_status tag_list(fmt_machine *m, const fmt_objects *args, const char *tag, fmt_object **out) {
  fmt_object *name = NULL;
  *out = arg(args, 0, FMT_OBJ_LIST);
  if (!*out) return bad_call(m, "a typed list");
  TRY(made(m, FMT_OBJ_STR, &name));
  name->u.str = base_str_of(tag);
  (*out)->tag = name;
  return TD_OK;
}

static td_status int_list(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  return tag_list(m, args, "List[int]", out);
}
static td_status double_list(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  return tag_list(m, args, "List[float]", out);
}
static td_status bool_list(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  return tag_list(m, args, "List[bool]", out);
}
static td_status tensor_list(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  return tag_list(m, args, "List[Tensor]", out);
}

/* A container and what it holds. */
static td_status restore_tag(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  const fmt_object *tag = arg(args, 1, FMT_OBJ_STR);
  if (args->count != 2 || !tag) return bad_call(m, "restore_type_tag");
  *out = args->at[0];
  (*out)->tag = tag;
  return TD_OK;
}

static td_status refuse_sparse(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  (void)args;
  (void)out;
  return fmt_machine_fail(m, TD_UNSUPPORTED, "the file holds a sparse tensor, which is not supported");
}

/* A tuple of at most BASE_MAX_RANK numbers >= 0. */
static td_status read_sizes(fmt_machine *m, const fmt_object *tuple, int64_t *sizes, int32_t *rank) {
  const fmt_objects *items = &tuple->u.items;
  if (items->count > BASE_MAX_RANK)
    return fmt_machine_fail(m, TD_UNSUPPORTED, "a tensor has more than %d dimensions", BASE_MAX_RANK);
  for (uint32_t i = 0; i < items->count; i++) {
    const fmt_object *size = arg(items, i, FMT_OBJ_INT);
    if (!size || size->u.i < 0)
      return fmt_machine_fail(m, TD_BAD_FILE, "a size or stride of a tensor is no number >= 0");
    sizes[i] = size->u.i;
  }
  *rank = (int32_t)items->count;
  return TD_OK;
}

/* Complex numbers as what they are made of: a last axis of 2. */
static td_status take_apart(fmt_machine *m, fmt_stored_tensor *t) {
  bool fits = base_mul_i64(t->offset, 2, &t->offset);
  for (int32_t i = 0; i < t->rank; i++) fits = fits && base_mul_i64(t->strides[i], 2, &t->strides[i]);
  if (!fits) return fmt_machine_fail(m, TD_BAD_FILE, "the tensor's strides overflow");
  if (t->rank == BASE_MAX_RANK)
    return fmt_machine_fail(m, TD_UNSUPPORTED, "a tensor of complex numbers has %d dimensions", BASE_MAX_RANK);
  t->dims[t->rank] = 2;
  t->strides[t->rank++] = 1;
  return TD_OK;
}

/* `marker`: of the dtype, NULL for the storage's. */
static td_status make_tensor(fmt_machine *m, const fmt_objects *args, const struct fmt_global_row *marker,
                             fmt_object **out) {
  const fmt_object *storage = arg(args, 0, FMT_OBJ_STORAGE), *offset = arg(args, 1, FMT_OBJ_INT);
  const fmt_object *sizes = arg(args, 2, FMT_OBJ_TUPLE), *strides = arg(args, 3, FMT_OBJ_TUPLE);
  int32_t rank = 0, stride_rank = 0;
  if (!storage || !offset || offset->u.i < 0 || !sizes || !strides) return bad_call(m, "_rebuild_tensor");
  fmt_stored_tensor *t = base_new(m->arena, fmt_stored_tensor, 1);
  if (!t) return base_no_memory(m->err, "pickle");
  *t = (fmt_stored_tensor){.storage = storage->u.storage,
                           .dtype = marker ? marker->dtype : storage->u.storage->dtype,
                           .is_complex = marker ? marker->is_complex : storage->u.storage->is_complex,
                           .offset = offset->u.i};
  if (t->dtype == TD_INVALID) return fmt_machine_fail(m, TD_BAD_FILE, "a tensor over an untyped storage has no dtype");
  TRY(read_sizes(m, sizes, t->dims, &rank));
  TRY(read_sizes(m, strides, t->strides, &stride_rank));
  if (rank != stride_rank)
    return fmt_machine_fail(m, TD_BAD_FILE, "a tensor has %d sizes and %d strides", rank, stride_rank);
  t->rank = rank;
  if (t->is_complex) TRY(take_apart(m, t));
  TRY(made(m, FMT_OBJ_TENSOR, out));
  (*out)->u.tensor = t;
  return TD_OK;
}

/* Metadata (conjugate or negative views) changes what the numbers mean, so it must be empty. */
static td_status no_metadata(fmt_machine *m, const fmt_objects *args, uint32_t index) {
  if (args->count <= index) return TD_OK;
  const fmt_object *o = args->at[index];
  if (o->kind == FMT_OBJ_NONE || (o->kind == FMT_OBJ_DICT && o->u.items.count == 0)) return TD_OK;
  return fmt_machine_fail(m, TD_UNSUPPORTED, "a tensor carries metadata, which is not supported");
}

static td_status rebuild_v2(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  TRY(no_metadata(m, args, 6));
  return make_tensor(m, args, NULL, out);
}

/* v2's first six arguments, a dtype, metadata. */
static td_status rebuild_v3(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  const fmt_object *dtype = arg(args, 6, FMT_OBJ_GLOBAL);
  const struct fmt_global_row *row = dtype ? dtype->u.global->row : NULL;
  if (!row || row->dtype == TD_INVALID || row->is_storage) return bad_call(m, "_rebuild_tensor_v3");
  TRY(no_metadata(m, args, 7));
  return make_tensor(m, args, row, out);
}

static td_status rebuild_parameter(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  if (!arg(args, 0, FMT_OBJ_TENSOR)) return bad_call(m, "_rebuild_parameter");
  *out = args->at[0];
  return TD_OK;
}

/* (per_tensor_affine, scale, zero point) or (per_channel_affine, scales, zero points, axis) */
static td_status read_quantiser(fmt_machine *m, const fmt_objects *args, fmt_quantiser *q) {
  const fmt_object *scheme = arg(args, 0, FMT_OBJ_GLOBAL);
  const fmt_object *scale = arg(args, 1, FMT_OBJ_FLOAT), *zero = arg(args, 2, FMT_OBJ_INT);
  const fmt_object *scales = arg(args, 1, FMT_OBJ_TENSOR), *zeros = arg(args, 2, FMT_OBJ_TENSOR);
  const fmt_object *axis = arg(args, 3, FMT_OBJ_INT);
  if (scheme && base_str_is(scheme->u.global->name, "per_tensor_affine") && scale && zero) {
    *q = (fmt_quantiser){.scale = scale->u.f, .zero_point = zero->u.i};
    return TD_OK;
  }
  if (!scheme || !base_str_starts(scheme->u.global->name, "per_channel") || !scales || !zeros || !axis)
    return bad_call(m, "_rebuild_qtensor");
  *q = (fmt_quantiser){
      .per_channel = true, .axis = axis->u.i, .scales = scales->u.tensor, .zero_points = zeros->u.tensor};
  return TD_OK;
}

/* Storage, offset, sizes, strides, how it is quantised, and what only training needs. */
static td_status rebuild_quantised(fmt_machine *m, const fmt_objects *args, fmt_object **out) {
  const fmt_object *how = arg(args, 4, FMT_OBJ_TUPLE);
  fmt_quantiser *q = base_new(m->arena, fmt_quantiser, 1);
  if (!q) return base_no_memory(m->err, "pickle");
  if (!how) return bad_call(m, "_rebuild_qtensor");
  TRY(read_quantiser(m, &how->u.items, q));
  TRY(make_tensor(m, args, NULL, out));
  (*out)->u.tensor->quantiser = q;
  return TD_OK;
}

static const struct fmt_global_row globals[] = {
    {"torch._utils", "_rebuild_tensor_v2", rebuild_v2, TD_INVALID, false, false},
    {"torch._utils", "_rebuild_tensor_v3", rebuild_v3, TD_INVALID, false, false},
    {"torch._utils", "_rebuild_parameter", rebuild_parameter, TD_INVALID, false, false},
    {"torch._utils", "_rebuild_qtensor", rebuild_quantised, TD_INVALID, false, false},
    {"torch._utils", "_rebuild_sparse_tensor", refuse_sparse, TD_INVALID, false, false},
    {"collections", "OrderedDict", make_dict, TD_INVALID, false, false},
    {"builtins", "complex", make_complex, TD_INVALID, false, false},
    {"torch", "device", make_device, TD_INVALID, false, false},
    {"torch.jit._pickle", "build_intlist", int_list, TD_INVALID, false, false},
    {"torch.jit._pickle", "build_doublelist", double_list, TD_INVALID, false, false},
    {"torch.jit._pickle", "build_boollist", bool_list, TD_INVALID, false, false},
    {"torch.jit._pickle", "build_tensorlist", tensor_list, TD_INVALID, false, false},
    {"torch.jit._pickle", "restore_type_tag", restore_tag, TD_INVALID, false, false},
    {"torch", "FloatStorage", NULL, TD_F32, true, false},
    {"torch", "DoubleStorage", NULL, TD_F64, true, false},
    {"torch", "HalfStorage", NULL, TD_F16, true, false},
    {"torch", "BFloat16Storage", NULL, TD_BF16, true, false},
    {"torch", "ComplexFloatStorage", NULL, TD_F32, true, true},
    {"torch", "ComplexDoubleStorage", NULL, TD_F64, true, true},
    {"torch", "LongStorage", NULL, TD_I64, true, false},
    {"torch", "IntStorage", NULL, TD_I32, true, false},
    {"torch", "ShortStorage", NULL, TD_I16, true, false},
    {"torch", "CharStorage", NULL, TD_I8, true, false},
    {"torch", "ByteStorage", NULL, TD_U8, true, false},
    {"torch", "BoolStorage", NULL, TD_BOOL, true, false},
    {"torch", "QInt8Storage", NULL, TD_I8, true, false},
    {"torch", "QUInt8Storage", NULL, TD_U8, true, false},
    {"torch", "QInt32Storage", NULL, TD_I32, true, false},
    {"torch", "Float8_e4m3fnStorage", NULL, TD_F8E4M3FN, true, false},
    {"torch", "Float8_e5m2Storage", NULL, TD_F8E5M2, true, false},
    {"torch", "per_tensor_affine", NULL, TD_INVALID, false, false},
    {"torch", "per_channel_affine", NULL, TD_INVALID, false, false},
    {"torch", "per_channel_affine_float_qparams", NULL, TD_INVALID, false, false},
    {"torch", "UntypedStorage", NULL, TD_INVALID, true, false},
    {"torch.storage", "UntypedStorage", NULL, TD_INVALID, true, false},
    {"torch", "float32", NULL, TD_F32, false, false},
    {"torch", "float64", NULL, TD_F64, false, false},
    {"torch", "float16", NULL, TD_F16, false, false},
    {"torch", "bfloat16", NULL, TD_BF16, false, false},
    {"torch", "complex64", NULL, TD_F32, false, true},
    {"torch", "complex128", NULL, TD_F64, false, true},
    {"torch", "int64", NULL, TD_I64, false, false},
    {"torch", "int32", NULL, TD_I32, false, false},
    {"torch", "int16", NULL, TD_I16, false, false},
    {"torch", "int8", NULL, TD_I8, false, false},
    {"torch", "uint64", NULL, TD_U64, false, false},
    {"torch", "uint32", NULL, TD_U32, false, false},
    {"torch", "uint16", NULL, TD_U16, false, false},
    {"torch", "uint8", NULL, TD_U8, false, false},
    {"torch", "bool", NULL, TD_BOOL, false, false},
    {"torch", "float8_e4m3fn", NULL, TD_F8E4M3FN, false, false},
    {"torch", "float8_e4m3fnuz", NULL, TD_F8E4M3FNUZ, false, false},
    {"torch", "float8_e5m2", NULL, TD_F8E5M2, false, false},
    {"torch", "float8_e5m2fnuz", NULL, TD_F8E5M2FNUZ, false, false},
    {"torch", "float8_e8m0fnu", NULL, TD_F8E8M0, false, false},
};

const struct fmt_global_row *fmt_find_global(base_str module, base_str name) {
  for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
    if (base_str_is(name, globals[i].name) && base_str_is(module, globals[i].module)) return &globals[i];
  return NULL;
}

/* ("storage", class, key, device, count); the form without a zip adds a sixth, None unless the storage is a part of
 * another. */
td_status fmt_make_storage(fmt_machine *m, const fmt_objects *id, fmt_object **out) {
  const fmt_object *tag = arg(id, 0, FMT_OBJ_STR), *class = arg(id, 1, FMT_OBJ_GLOBAL);
  const fmt_object *key = arg(id, 2, FMT_OBJ_STR), *count = arg(id, 4, FMT_OBJ_INT);
  const struct fmt_global_row *row = class ? class->u.global->row : NULL;
  if (!tag || !base_str_is(tag->u.str, "storage") || !row || !row->is_storage || !key || !count || count->u.i < 0)
    return fmt_machine_fail(m, TD_BAD_FILE, "a persistent id is not that of a storage");
  if (id->count > 5 && !arg(id, 5, FMT_OBJ_NONE))
    return fmt_machine_fail(m, TD_UNSUPPORTED,
                            "a storage is a part of another one; save the file with a newer PyTorch");
  fmt_storage *s = base_new(m->arena, fmt_storage, 1);
  fmt_storage **slot = s && m->storages ? base_vec_push(m->arena, m->storages) : NULL;
  if (!s || (m->storages && !slot)) return base_no_memory(m->err, "pickle");
  *s = (fmt_storage){row->dtype, key->u.str, count->u.i, row->is_complex};
  if (row->is_complex && !base_mul_i64(s->count, 2, &s->count))
    return fmt_machine_fail(m, TD_BAD_FILE, "a storage claims more elements than any file holds");
  if (slot) *slot = s;
  TRY(made(m, FMT_OBJ_STORAGE, out));
  (*out)->u.storage = s;
  return TD_OK;
}
