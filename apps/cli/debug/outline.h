/* outline.h -- a model as its file has it. */
#ifndef CLI_OUTLINE_H
#define CLI_OUTLINE_H
#include "cli/cli.h"

/* Prints the nodes of an ONNX file or of an exported program, or a TorchScript program, as the file has them, also of
 * one that does not load, with those operators marked that `why`, the error's text, says are not supported.
 * Of other formats it prints nothing. TD_BAD_FILE: damaged; what stands before it was printed. */
td_status cli_print_outline(base_arena *arena, const char *path, const char *why, td_error *err);
#endif
