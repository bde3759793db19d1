/* graph_file.h -- graphs as files that can be edited and run. */
#ifndef CLI_GRAPH_FILE_H
#define CLI_GRAPH_FILE_H
#include "cli/cli.h"

/* Writes what td_model_save_graph says to `path`, and its weights, if it has some, to the same name with .weights
 * behind it. What stood there is replaced. */
td_status cli_save_graph(const td_model *model, const char *stage, td_cut *cut, const char *path, base_arena *arena,
                         td_error *err);
/* Writes the imported graph as an ONNX file. TD_UNSUPPORTED names what ONNX has no operator for; no file is left then.
 */
td_status cli_save_onnx(const td_model *model, const char *path, td_error *err);
/* Has the weights of a graph that was saved at `path`, if it has some, be zeros. */
td_status cli_drop_weights(const char *path, base_arena *arena, td_error *err);
#endif
