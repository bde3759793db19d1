/* data.c -- samples to measure a model on: arrays, pictures, and folders of arrays. */
#include "quantize.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fmt/image.h"
#include "fmt/npy.h"
#include "sys/sys.h"

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

td_status quant_list_data(base_arena *arena, const char *path, quant_data *data, td_error *err) {
  BASE_VEC(const char *) files = {0};
  DIR *folder = opendir(path);
  const char **slot;
  if (!folder) {
    if (!(slot = base_vec_push(arena, &files))) return base_no_memory(err, "samples");
    *slot = path;
  }
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    if (!(slot = base_vec_push(arena, &files)) || !(*slot = base_arena_format(arena, "%s/%s", path, entry->d_name))) {
      closedir(folder);
      return base_no_memory(err, "samples");
    }
  }
  if (folder) closedir(folder);
  if (!files.count) return base_fail(err, TD_BAD_ARGUMENT, path, -1, "there is no sample in this folder");
  qsort(files.at, files.count, sizeof *files.at, by_name);
  data->files = files.at;
  data->count = files.count;
  return TD_OK;
}

bool quant_spread(base_arena *arena, const quant_data *data, uint32_t most, quant_data *some) {
  *some = *data;
  if (data->count <= most) return true;
  some->count = most;
  some->files = base_new(arena, const char *, most);
  for (uint32_t i = 0; some->files && i < most; i++) some->files[i] = data->files[(uint64_t)i * data->count / most];
  return some->files != NULL;
}

static td_status set_file(const quant_data *data, const char *path, size_t index, const td_model *model,
                          td_session *session, base_arena *arena, td_error *err) {
  sys_mapping map = {0};
  td_value_info info = {.size = sizeof info};
  base_tensor t;
  TRY(td_model_input(model, index, &info, err));
  TRY(sys_file_map(path, &map, err));
  td_status status;
  if (fmt_image_sniff(map.bytes, map.size)) {
    const fmt_image_input input = {info.dtype, info.rank, info.dims};
    fmt_image image;
    status = fmt_image_decode(arena, map.bytes, map.size, FMT_IMAGE_MOST_PIXELS, &image, err);
    if (status == TD_OK) status = fmt_image_preprocess(arena, &image, data->preset, &input, &t, err);
  } else {
    status = fmt_npy_read(arena, map.bytes, map.size, TD_INVALID, &t, err);
    if (status == TD_OK) { /* the mapping goes */
      void *copy = base_arena_copy(arena, t.data, base_tensor_bytes(&t));
      if (!copy) status = base_no_memory(err, "a sample");
      t.data = copy;
    }
  }
  sys_unmap(&map);
  if (status != TD_OK) {
    if (!*err->name) snprintf(err->name, sizeof err->name, "%s", path);
    return status;
  }
  td_tensor given = {.dtype = t.dtype, .rank = t.rank, .data = t.data};
  memcpy(given.dims, t.dims, sizeof given.dims);
  return td_session_set_input(session, index, &given, err);
}

td_status quant_set_sample(const quant_data *data, uint32_t i, const td_model *model, td_session *session,
                           base_arena *arena, td_error *err) {
  const size_t count = td_model_input_count(model);
  const char *path = data->files[i];
  DIR *folder = opendir(path);
  if (!folder && count > 1)
    return base_fail(err, TD_BAD_ARGUMENT, path, -1,
                     "the model has %zu inputs: a sample is a folder with NAME.npy for each of them", count);
  if (!folder) return set_file(data, path, 0, model, session, arena, err);
  closedir(folder);
  for (size_t k = 0; k < count; k++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_input(model, k, &info, err));
    char *file = base_arena_format(arena, "%s/%s.npy", path, info.name);
    if (!file) return base_no_memory(err, "a sample");
    TRY(set_file(data, file, k, model, session, arena, err));
  }
  return TD_OK;
}
