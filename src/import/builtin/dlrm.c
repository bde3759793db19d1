/* dlrm.c -- DLRM (Naumov et al. 2019), with the keys of its authors' program and the sizes of its benchmarks: dense
 * features and 26 embeddings meet in dot products of all pairs. */
#include "import/builtin/builtin_priv.h"

enum { DENSE = 13, TABLES = 26, ROWS = 1000, WIDTH = 128, VECTORS = TABLES + 1, PAIRS = VECTORS * TABLES / 2 };
static const int64_t bottom[] = {512, 256, WIDTH}, top[] = {1024, 1024, 512, 256, 1};
enum { BOTTOM = sizeof bottom / sizeof *bottom, TOP = sizeof top / sizeof *top };

/* Linear layers PREFIX.0, PREFIX.2, ..., each with ReLU but for the last, which has `activation`. */
static ir_value layers(builtin_net *n, ir_value x, const int64_t *widths, int count, const char *prefix,
                       const char *activation) {
  for (int i = 0; i < count; i++) {
    const char *key = builtin_key(n, "%s.%d", prefix, 2 * i);
    x = builtin_activation(n, builtin_linear(n, x, widths[i], key), i + 1 < count ? "relu" : activation, key);
  }
  return x;
}

/* The strict lower triangle of the products of all pairs, behind the dense vector. */
static ir_value interact(builtin_net *n, ir_value dense, ir_value all) {
  int64_t lower[PAIRS];
  uint32_t count = 0;
  for (int64_t i = 1; i < VECTORS; i++)
    for (int64_t j = 0; j < i; j++) lower[count++] = i * VECTORS + j;
  ir_value transposed = builtin_permute(n, all, 3, (const int64_t[]){0, 2, 1}, "interaction");
  ir_value products = builtin_binary(n, "aten::matmul", all, transposed, "interaction");
  products = builtin_view(n, products, 2, (const int64_t[]){0, VECTORS * VECTORS}, "interaction");
  products = builtin_select(n, products, 1, lower, count, "interaction");
  return builtin_cat(n, (const ir_value[]){dense, products}, 2, 1, "interaction");
}

void builtin_dlrm(builtin_net *n) {
  ir_value parts[VECTORS];
  ir_value x = builtin_input(n, "dense", TD_F32, 2, (const int64_t[]){-1, DENSE});
  ir_value sparse = builtin_input(n, "sparse", TD_I64, 2, (const int64_t[]){-1, TABLES});
  x = layers(n, x, bottom, BOTTOM, "bot_l", "relu");
  parts[0] = builtin_view(n, x, 3, (const int64_t[]){0, 1, WIDTH}, "interaction");
  for (int i = 0; i < TABLES; i++) {
    const char *key = builtin_key(n, "emb_l.%d", i);
    parts[i + 1] = builtin_embedding(n, builtin_slice(n, sparse, 1, i, i + 1, key), ROWS, WIDTH, key);
  }
  x = interact(n, x, builtin_cat(n, parts, VECTORS, 1, "interaction"));
  builtin_output(n, layers(n, x, top, TOP, "top_l", "sigmoid"), "probability");
}
