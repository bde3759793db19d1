/* session.h -- values to a session and back, and what a model says of them in words. */
#ifndef COMMON_SESSION_H
#define COMMON_SESSION_H
#include "common/json.h"

/* `from` as the library takes tensors: dense and row-major; a copy lies in the arena. */
td_status app_dense_tensor(const base_tensor *from, base_arena *arena, td_tensor *to, td_error *err);
/* Binds a value to input `index`; its memory must live until the run is over. Uneven strides are packed into `arena`.
 */
td_status app_bind(td_session *session, size_t index, const base_value *value, base_arena *arena, td_error *err);
/* Output `index` of the last run: a tensor, or a list for what is not declared as a tensor. */
td_status app_fetch(const td_model *model, td_session *session, size_t index, base_arena *arena, base_value *value,
                    td_error *err);
/* "f32[batch,3,224,224]", "list of ..." into `text`; returns text. */
char *app_info_text(const td_value_info *info, char *text, size_t size);
json_t *app_info_json(const td_value_info *info);
#endif
