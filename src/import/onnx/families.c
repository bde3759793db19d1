/* families.c -- the lowering tables, as one list. */
#include "import/onnx/onnx_priv.h"

#define LOWER(family) ONNX_DECLARE(family);
#include "import/onnx/lower.def"
#undef LOWER

#define LOWER(family) {onnx_lower_##family, &onnx_lower_##family##_count},
static const onnx_family families[] = {
#include "import/onnx/lower.def"
};
#undef LOWER

const onnx_family *onnx_families(uint32_t *count) {
  *count = sizeof families / sizeof *families;
  return families;
}
