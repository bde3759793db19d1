/* experimental.h -- functions of libtreadle that may still change or go: no ABI promise. The rules of treadle.h hold
 * otherwise. */
#ifndef TREADLE_EXPERIMENTAL_H
#define TREADLE_EXPERIMENTAL_H
#include <treadle/treadle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What this build of the library knows, as one JSON object of arrays of names: "backends" (what td_load_options.backend
 * takes), "formats", "builtins" (what stands after builtin:), "passes", "operators" (of the graph), "onnx_operators".
 * Writes at most `size` bytes into `text`, NUL included, as snprintf does; `*length` is the length of the whole text
 * without the NUL. `text` may be NULL when `size` is 0. */
TD_API td_status td_capabilities(char *text, size_t size, size_t *length, td_error *err);

#ifdef __cplusplus
}
#endif
#endif
