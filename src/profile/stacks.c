/* stacks.c -- folded stacks, a line each: "model;layer1;conv1;KERNEL 41", the last number in microseconds of all runs.
 * Flame graph tools read them. A path's parts are what slashes or dots separate in the names of nodes. */
#include "profile/profile_priv.h"

static void put_path(prof_out *out, base_str name) {
  bool open = false;
  for (size_t i = 0; i < name.length; i++) {
    const char c = name.at[i];
    if (c == '/' || c == '.') {
      open = false;
      continue;
    }
    if (!open) prof_put(out, ";");
    open = true;
    base_text_add(&out->text, c == ';' || c == ' ' || c == '\n' ? "_" : &c, 1);
  }
}

td_status prof_write_stacks(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                            prof_out *out, td_error *err) {
  (void)view;
  (void)allocator;
  (void)err;
  for (uint32_t i = 0; i < source->recorder->options.steps; i++) {
    const prof_total *total = &source->recorder->totals[i];
    const td_step *step = &source->steps[i];
    if (!total->calls) continue;
    prof_put(out, "model");
    put_path(out, prof_node_name(step));
    prof_print(out, ";%.200s %llu\n", step->kernel && *step->kernel ? step->kernel : "control",
               (unsigned long long)((total->ns + 500) / 1000));
  }
  return TD_OK;
}
