/* values.c -- files to values and back. The readers are rows of one table, found by the end of the file's name.
 *
 * Files are mapped for as long as the process lives: values are views into them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/values.h"
#include "fmt/fmt.h"
#include "sys/sys.h"

static td_status add_value(const app_read_how *how, base_str name, const base_value *value, app_named_vec *out,
                           td_error *err) {
  app_named *slot = base_vec_push(how->arena, out);
  if (!slot) return base_no_memory(err, "values");
  *slot = (app_named){.name = base_arena_slice(how->arena, name.at, name.length), .value = *value};
  return slot->name ? TD_OK : base_no_memory(err, "values");
}

static td_status add_tensor(const app_read_how *how, base_str name, const base_tensor *tensor, app_named_vec *out,
                            td_error *err) {
  base_value value = {.kind = BASE_TENSOR, .tensor = *tensor};
  return add_value(how, name, &value, out, err);
}

/* ---- readers ---- */

static td_status read_npy(const sys_mapping *file, const app_read_how *how, app_named_vec *out, td_error *err) {
  base_tensor tensor;
  td_dtype raw_as = how->info ? how->info->dtype : TD_INVALID;
  TRY(fmt_npy_read(how->arena, file->bytes, file->size, raw_as, &tensor, err));
  return add_tensor(how, BASE_STR(""), &tensor, out, err);
}

static fmt_value_form form_of(const td_value_info *info) {
  if (info && strcmp(info->kind, "list") == 0) return FMT_FORM_SEQUENCE;
  if (info && strcmp(info->kind, "optional") == 0) return FMT_FORM_OPTIONAL;
  return FMT_FORM_TENSOR;
}

static td_status read_pb(const sys_mapping *file, const app_read_how *how, app_named_vec *out, td_error *err) {
  base_value value;
  TRY(fmt_value_proto_read(how->arena, fmt_wire_of(file->bytes, file->size), form_of(how->info), &value, err));
  return add_value(how, BASE_STR(""), &value, out, err);
}

/* An allocator that takes from the arena and gives nothing back: what a reader allocates lives as long as the values.
 */
static void *arena_alloc(void *user, size_t bytes, size_t align) {
  return base_arena_alloc_aligned((base_arena *)user, bytes, align);
}

static void arena_free(void *user, void *memory, size_t bytes) {
  (void)user;
  (void)memory;
  (void)bytes;
}

static td_status add_dictionary(const app_read_how *how, const fmt_state_dict *dict, app_named_vec *out,
                                td_error *err) {
  for (uint32_t i = 0; i < dict->entries.count; i++) {
    TRY(add_tensor(how, dict->entries.at[i].name, &dict->entries.at[i].tensor, out, err));
  }
  return TD_OK;
}

static td_status read_npz(const sys_mapping *file, const app_read_how *how, app_named_vec *out, td_error *err) {
  td_allocator allocator = {how->arena, arena_alloc, arena_free};
  td_dtype raw_as = how->info ? how->info->dtype : TD_INVALID;
  fmt_state_dict *dict;
  TRY(fmt_npz_open(&allocator, file->bytes, file->size, raw_as, &dict, err));
  return add_dictionary(how, dict, out, err);
}

static td_status read_safetensors(const sys_mapping *file, const app_read_how *how, app_named_vec *out, td_error *err) {
  td_allocator allocator = {how->arena, arena_alloc, arena_free};
  fmt_state_dict *dict;
  TRY(fmt_safetensors_open(&allocator, file->bytes, file->size, &dict, err));
  return add_dictionary(how, dict, out, err);
}

/* One of the pictures of an input that is a list of them. */
static td_status add_item(const app_read_how *how, const base_tensor *tensor, app_named_vec *out, td_error *err) {
  base_value *item = base_new(how->arena, base_value, 1);
  if (!item) return base_no_memory(err, "a list");
  *item = (base_value){.kind = BASE_TENSOR, .tensor = *tensor};
  const base_value list = {.kind = BASE_LIST, .list = {.items = item, .count = 1}};
  return add_value(how, BASE_STR(""), &list, out, err);
}

static td_status read_image(const sys_mapping *file, const app_read_how *how, app_named_vec *out, td_error *err) {
  static const int64_t of_list[] = {3, -1, -1};
  fmt_image image;
  base_tensor tensor;
  fmt_image_input input = {TD_F32, -1, NULL};
  const bool is_list = form_of(how->info) == FMT_FORM_SEQUENCE;
  if (is_list) input = (fmt_image_input){TD_F32, 3, of_list};
  else if (how->info) input = (fmt_image_input){how->info->dtype, how->info->rank, how->info->dims};
  TRY(fmt_image_decode(how->arena, file->bytes, file->size, FMT_IMAGE_MOST_PIXELS, &image, err));
  TRY(fmt_image_preprocess(how->arena, &image, how->preprocess, &input, &tensor, err));
  return is_list ? add_item(how, &tensor, out, err) : add_tensor(how, BASE_STR(""), &tensor, out, err);
}

/* f32[channels,samples]; as [samples] or [1,channels,samples] where the input has that rank. */
static td_status read_wav(const sys_mapping *file, const app_read_how *how, app_named_vec *out, td_error *err) {
  base_tensor samples;
  int64_t rate;
  TRY(fmt_wav_read(how->arena, file->bytes, file->size, &samples, &rate, err));
  int32_t rank = how->info ? how->info->rank : samples.rank;
  if (rank == 1 && samples.dims[0] == 1) {
    samples = base_tensor_of(samples.data, samples.dtype, 1, &samples.dims[1]);
  } else if (rank == 3) {
    int64_t dims[] = {1, samples.dims[0], samples.dims[1]};
    samples = base_tensor_of(samples.data, samples.dtype, 3, dims);
  }
  TRY(add_tensor(how, BASE_STR(""), &samples, out, err));
  out->at[out->count - 1].rate = rate;
  return TD_OK;
}

static const struct {
  const char *ending;
  td_status (*read)(const sys_mapping *file, const app_read_how *how, app_named_vec *out, td_error *err);
} readers[] = {
    {".npy", read_npy},   {".npz", read_npz},    {".pb", read_pb},     {".safetensors", read_safetensors},
    {".jpg", read_image}, {".jpeg", read_image}, {".png", read_image}, {".wav", read_wav},
};

td_status app_read_values(const char *path, const app_read_how *how, app_named_vec *out, td_error *err) {
  sys_mapping file;
  size_t length = strlen(path);
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
    size_t ending = strlen(readers[i].ending);
    if (length < ending || strcasecmp(path + length - ending, readers[i].ending) != 0) continue;
    TRY(sys_file_map(path, &file, err));
    return base_error_name(err, readers[i].read(&file, how, out, err), "%s", path);
  }
  base_text endings = {.allocator = &base_libc_allocator};
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) base_text_print(&endings, " %s", readers[i].ending);
  td_status status = base_fail(err, TD_BAD_ARGUMENT, path, -1, "no reader for this name; there are%s",
                               endings.failed ? "" : endings.at);
  base_text_free(&endings);
  return status;
}

td_status app_read_recorded(const char *path, const app_read_how *how, base_value *value, td_error *err) {
  sys_mapping file;
  app_named_vec found = {0};
  TRY(sys_file_map(path, &file, err));
  TRY(base_error_name(err, read_pb(&file, how, &found, err), "%s", path));
  *value = found.at[0].value;
  /* Recorders whose arrays have no bf16 wrote its bits as u16. */
  bool bits = value->kind == BASE_TENSOR && value->tensor.dtype == TD_U16 && how->info && how->info->dtype == TD_BF16;
  if (bits) value->tensor.dtype = TD_BF16;
  return TD_OK;
}

td_status app_write_npy(const char *path, const base_tensor *tensor, td_error *err) {
  base_text bytes = {.allocator = &base_libc_allocator};
  td_status status = base_error_name(err, fmt_npy_write(&bytes, tensor, err), "%s", path);
  FILE *file = status == TD_OK ? fopen(path, "wb") : NULL;
  if (status == TD_OK) {
    bool written = file && fwrite(bytes.at, 1, bytes.length, file) == bytes.length;
    if (file && fclose(file) != 0) written = false;
    if (!written) status = base_fail(err, TD_NO_RESOURCE, path, -1, "cannot be written: %s", strerror(errno));
  }
  base_text_free(&bytes);
  return status;
}
