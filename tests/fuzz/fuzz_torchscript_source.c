/* Source text of TorchScript archives. */
#include "fuzz/change_numbers.h"
#include "import/torchscript/ast_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ts_source source = {.file = "code/net.py"};
  td_error err = {0};
  if (arena) ts_parse(arena, (base_str){(const char *)data, size}, &source, &err);
  base_arena_free(arena);
  return 0;
}
