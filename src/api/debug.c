/* debug.c -- searches for faults over callbacks: arguments are checked here, src/debug searches. */
#include "api/api_priv.h"

td_status td_comparison_new(const td_comparison_options *options, td_comparison **comparison, td_error *err) {
  td_comparison_options own = {0};
  if (!options || !comparison)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_comparison_new needs options and a place for the comparison");
  TRY(api_read_options(&own, sizeof own, options, err));
  if (!own.run || !own.release || own.rtol < 0 || own.atol < 0)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "set run and release of td_comparison_options, and tolerances that are not negative");
  base_arena *arena = base_arena_new(&sys_allocator);
  if (!arena) return base_no_memory(err, "a comparison");
  const td_status status = debug_comparison_new(&own, arena, comparison, err);
  if (status != TD_OK) base_arena_free(arena);
  return status;
}

void td_comparison_free(td_comparison *comparison) {
  if (comparison) base_arena_free(debug_comparison_close(comparison));
}

td_status td_comparison_prepare(td_comparison *comparison, td_error *err) {
  if (!comparison) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_comparison_prepare needs a comparison");
  debug_comparison_prepare(comparison);
  return TD_OK;
}

td_status td_comparison_outputs(td_comparison *comparison, const td_results *got, const td_results *expected,
                                const td_results *recorded, td_difference_fn tell, void *user, int32_t *differs,
                                td_error *err) {
  if (!comparison || !got || !expected || !differs)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "td_comparison_outputs needs a comparison, two results and a place for the answer");
  return debug_compare_outputs(comparison, got, expected, recorded, tell, user, differs, err);
}

td_status td_comparison_nodes(td_comparison *comparison, size_t outputs, int32_t differs, td_difference_fn tell,
                              void *user, td_difference *found, int32_t *fused, td_error *err) {
  td_error unused;
  if (!comparison || !found || !fused)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "td_comparison_nodes needs a comparison and places for what is found");
  return debug_compare_nodes(comparison, outputs, differs != 0, tell, user, found, fused, err ? err : &unused);
}

td_status td_bisect(td_bisection *bisection, td_error *err) {
  td_bisection own = {0};
  td_error unused, *problem = err ? err : &unused;
  if (!bisection) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_bisect needs a td_bisection");
  TRY(api_read_options(&own, sizeof own, bisection, err));
  if (!own.differs || !own.pass || !own.culprits)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "set differs, pass and culprits of td_bisection");
  base_arena *arena = base_arena_new(&sys_allocator);
  if (!arena) return base_no_memory(err, "a search");
  const td_status status = debug_bisect(&own, arena, problem);
  base_arena_free(arena);
  TRY(api_write_stats(bisection, &own, sizeof own, err));
  return status;
}

td_status td_cut_value(const td_cut *cut, const td_tensor *from, void *data, td_tensor *to, td_error *err) {
  td_cut own = {0};
  if (!cut || !from || !to)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_cut_value needs a cut, a value and a place for the other");
  TRY(api_read_options(&own, sizeof own, cut, err));
  debug_cut_value(&own, from, data, to);
  return TD_OK;
}

td_status td_minify(td_minification *minification, td_error *err) {
  td_minification own = {0};
  td_error unused, *problem = err ? err : &unused;
  if (!minification) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_minify needs a td_minification");
  TRY(api_read_options(&own, sizeof own, minification, err));
  if (!own.open || !own.fails || !own.settle)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "set open, fails and settle of td_minification");
  base_arena *arena = base_arena_new(&sys_allocator);
  if (!arena) return base_no_memory(err, "a search");
  const td_status status = debug_minify(&own, arena, problem);
  base_arena_free(arena);
  TRY(api_write_stats(minification, &own, sizeof own, err));
  return status;
}
