/* session.c -- values to a session and back, and what a model says of them in words. */
#include "common/session.h"
#include "common/values.h"

#include <stdio.h>
#include <string.h>

td_status app_dense_tensor(const base_tensor *from, base_arena *arena, td_tensor *to, td_error *err) {
  *to = (td_tensor){.dtype = from->dtype, .rank = from->rank, .data = from->data};
  memcpy(to->dims, from->dims, sizeof to->dims);
  if (base_tensor_contiguous(from)) return TD_OK;
  to->data = base_arena_alloc_aligned(arena, base_tensor_bytes(from), 64);
  if (!to->data) return base_no_memory(err, "an input");
  base_tensor_pack(to->data, from);
  return TD_OK;
}

static td_status bind_list(td_session *session, size_t index, const base_list *list, base_arena *arena, td_error *err) {
  /* One more than needed: the address of an empty list differs from NULL, which means none. */
  td_tensor *items = base_new(arena, td_tensor, (size_t)list->count + 1);
  if (!items) return base_no_memory(err, "a list of inputs");
  for (int64_t i = 0; i < list->count; i++) {
    if (list->items[i].kind != BASE_TENSOR) {
      return base_fail(err, TD_UNSUPPORTED, NULL, -1, "a list inside a list cannot be an input");
    }
    TRY(app_dense_tensor(&list->items[i].tensor, arena, &items[i], err));
  }
  return td_session_set_input_list(session, index, items, (size_t)list->count, err);
}

td_status app_bind(td_session *session, size_t index, const base_value *value, base_arena *arena, td_error *err) {
  if (value->kind == BASE_LIST) return bind_list(session, index, &value->list, arena, err);
  if (value->kind == BASE_NOTHING) return td_session_set_input_list(session, index, NULL, 0, err);
  td_tensor tensor;
  TRY(app_dense_tensor(&value->tensor, arena, &tensor, err));
  return td_session_set_input(session, index, &tensor, err);
}

static base_value tensor_value(const td_tensor *t) {
  return (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(t->data, t->dtype, t->rank, t->dims)};
}

td_status app_fetch(const td_model *model, td_session *session, size_t index, base_arena *arena, base_value *value,
                    td_error *err) {
  td_value_info info = {.size = sizeof info};
  td_tensor tensor;
  TRY(td_model_output(model, index, &info, err));
  if (strcmp(info.kind, "tensor") == 0) {
    TRY(td_session_output(session, index, &tensor, err));
    *value = tensor_value(&tensor);
    return TD_OK;
  }
  size_t count;
  TRY(td_session_output_count(session, index, &count, err));
  base_value *items = base_new(arena, base_value, count + 1);
  if (!items) return base_no_memory(err, "a list of outputs");
  for (size_t i = 0; i < count; i++) {
    TRY(td_session_output_item(session, index, i, &tensor, err));
    items[i] = tensor_value(&tensor);
  }
  *value = (base_value){.kind = BASE_LIST, .list = {.items = items, .count = (int64_t)count}};
  return TD_OK;
}

/* Complex numbers are shown as such, without the axis of their parts. */
char *app_info_text(const td_value_info *info, char *text, size_t size) {
  bool is_tensor = strcmp(info->kind, "tensor") == 0;
  const char *dtype = info->is_complex ? app_complex_of_part(info->dtype) : td_dtype_name(info->dtype);
  const int32_t rank = info->rank - (info->is_complex != 0);
  if (!is_tensor && info->dtype == TD_INVALID) { /* of lists: nothing is said about the tensors inside */
    snprintf(text, size, "%s", info->kind);
    return text;
  }
  int at = snprintf(text, size, "%s%s%s", is_tensor ? "" : info->kind, is_tensor ? "" : " of ", dtype);
  if (info->rank < 0) {
    snprintf(text + at, size - (size_t)at, "[...]");
    return text;
  }
  for (int32_t i = 0; i < rank && (size_t)at < size; i++) {
    const char *before = i ? "," : "[";
    if (info->dims[i] >= 0) {
      at += snprintf(text + at, size - (size_t)at, "%s%lld", before, (long long)info->dims[i]);
    } else {
      at += snprintf(text + at, size - (size_t)at, "%s%s", before, info->symbols[i] ? info->symbols[i] : "?");
    }
  }
  if ((size_t)at < size) snprintf(text + at, size - (size_t)at, rank ? "]" : "[]");
  return text;
}

json_t *app_info_json(const td_value_info *info) {
  json_t *object = json_object();
  app_json_set(object, "name", app_json_text(info->name));
  app_json_set(object, "kind", app_json_text(info->kind));
  app_json_set(object, "dtype", app_json_text(td_dtype_name(info->dtype)));
  if (info->is_complex) app_json_set(object, "complex", json_true());
  json_t *dims = info->rank < 0 ? json_null() : json_array();
  for (int32_t i = 0; i < info->rank; i++) {
    if (info->dims[i] >= 0) {
      app_json_set(dims, NULL, json_integer(info->dims[i]));
    } else {
      app_json_set(dims, NULL, info->symbols[i] ? app_json_text(info->symbols[i]) : json_null());
    }
  }
  app_json_set(object, "shape", dims);
  return object;
}
