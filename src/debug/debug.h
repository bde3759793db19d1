/* debug.h -- looking into graphs, and searches for what is wrong in them. */
#ifndef DEBUG_DEBUG_H
#define DEBUG_DEBUG_H
#include <treadle/debug.h>

#include "ir/ir.h"

/* The name of result `k` of node `index` of the graph's own block, as README.md says, in the graph's arena; NULL: out
 * of memory. */
const char *debug_tap_name(ir_graph *graph, uint32_t index, uint32_t k);
/* Adds results of nodes of the graph's own block as outputs, behind those there are: of all nodes where `names` is "*",
 * else of those it lists, separated by commas; NULL or "": of none. Only tensors that are not outputs already. Unknown
 * names are TD_BAD_ARGUMENT. */
td_status debug_add_taps(ir_graph *graph, const char *names, td_error *err);
/* Behind debug_add_taps: nodes that read what another one made and what is an output, too, read an input of the
 * output's name instead. Nothing changes of values that hold sizes, and of those whose sizes data defines. */
td_status debug_feed_taps(ir_graph *graph, td_error *err);
/* Makes the graph what is left by `cut`, which treadle.h describes. After a failure it is only good for ir_graph_free.
 */
td_status debug_cut(ir_graph *graph, td_cut *cut, td_error *err);
/* Elements of type `from`, of inputs, constants and results, become of type `to`; attributes that name the type, too.
 * Types are inferred anew. */
td_status debug_retype(ir_graph *graph, td_dtype from, td_dtype to, td_error *err);
/* Infers the types of all nodes anew, nested ones too, after those of inputs or constants became others. */
td_status debug_infer_again(ir_graph *graph, td_error *err);

/* ---- searches over callbacks: treadle/debug.h says what they do -------------------------------------------------- */

/* The comparison is in the arena, which is its own from here on; debug_comparison_close gives it back. */
td_status debug_comparison_new(const td_comparison_options *options, base_arena *arena, td_comparison **comparison,
                               td_error *err);
base_arena *debug_comparison_close(td_comparison *comparison);
void debug_comparison_prepare(td_comparison *comparison);
td_status debug_compare_outputs(td_comparison *comparison, const td_results *got, const td_results *expected,
                                const td_results *recorded, td_difference_fn tell, void *user, int32_t *differs,
                                td_error *err);
td_status debug_compare_nodes(td_comparison *comparison, size_t outputs, bool differs, td_difference_fn tell,
                              void *user, td_difference *found, int32_t *fused, td_error *err);
/* Of dense values. */
void debug_cut_value(const td_cut *cut, const td_tensor *from, void *data, td_tensor *to);
td_status debug_minify(td_minification *minification, base_arena *arena, td_error *err);
td_status debug_bisect(td_bisection *bisection, base_arena *arena, td_error *err);
#endif
