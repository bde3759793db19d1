/* write.c -- text that goes out in pieces, and the choice of the form. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "profile/profile_priv.h"

enum { PIECE = 1 << 16 };

static void hand_over(prof_out *out) {
  if (out->status == TD_OK && out->text.failed) out->status = TD_NO_RESOURCE;
  if (out->status == TD_OK && out->text.length) out->status = out->write(out->user, out->text.at, out->text.length);
  out->text.length = 0;
}

static void room(prof_out *out) {
  if (out->text.length >= PIECE || out->text.failed) hand_over(out);
}

void prof_put(prof_out *out, const char *text) {
  base_text_add(&out->text, text, strlen(text));
  room(out);
}

void prof_print(prof_out *out, const char *format, ...) {
  char line[1024];
  va_list list;
  va_start(list, format);
  const int length = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  if (length > 0) base_text_add(&out->text, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
  room(out);
}

void prof_quote(prof_out *out, const char *text) {
  base_text_quote(&out->text, text ? text : "", text ? strlen(text) : 0);
  room(out);
}

td_status prof_finish(prof_out *out) {
  hand_over(out);
  base_text_free(&out->text);
  return out->status;
}

/* ---- the choice ---- */

typedef struct form {
  const char *name;
  prof_form_fn write;
} form;
static const form forms[] = {
#define FORM(name, function, summary) {name, function},
#include "profile/forms.def"
#undef FORM
};
#define FORM(name, function, summary) " " name
static const char form_names[] =
#include "profile/forms.def"
    ;
#undef FORM

td_status prof_write(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                     td_write_fn write, void *user, td_error *err) {
  const char *name = view->form ? view->form : "table";
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (strcmp(forms[i].name, name) != 0) continue;
    prof_out out = {.write = write, .user = user, .text = {.allocator = allocator}};
    const td_status status = forms[i].write(source, view, allocator, &out, err);
    const td_status written = prof_finish(&out);
    if (status != TD_OK || written == TD_OK) return status;
    return base_fail(err, written, NULL, -1, "the profile could not be written");
  }
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "no form '%s' of a profile: there are%s", name, form_names);
}
