/* write.h -- parts of an ONNX file, written anew. */
#ifndef QUANTIZE_WRITE_H
#define QUANTIZE_WRITE_H
#include "quantize.h"

enum {
  MODEL_GRAPH = 7,
  MODEL_OPSET = 8,
  GRAPH_NODE = 1,
  GRAPH_INITIALIZER = 5,
  GRAPH_OUTPUT = 12,
  NODE_INPUT = 1,
  NODE_OUTPUT = 2
};

typedef struct quant_writer {
  const quant_model *m;
  const quant_recipe *recipe; /* NULL: nothing is quantised */
  bool *near;                 /* of each node: static, and a narrow product is among its neighbours' neighbours */
  bool *biased;               /* of each node written: its bias is i32 */
  base_text graph, added;     /* initializers */
  bool unnamed;               /* memory ran out in quant_name */
  td_error *err;
} quant_writer;

typedef struct quant_number {
  const char *name;
  int64_t value;
} quant_number;

#define QUANT_LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
/* A node of our own, named after its first result. */
void quant_put_node(quant_writer *w, const char *op, const char *domain, const char *const *in, const char *const *out,
                    const quant_number *numbers, uint32_t count);
/* The node with other operands; NULL among them: as it was. The last of `in`, one more than it had, is added. `out`:
 * the name of its only result; NULL: as it was. */
void quant_put_again(quant_writer *w, const quant_node *n, const char *const *in, const char *out);
void quant_put_constant(quant_writer *w, const char *name, td_dtype dtype, int32_t rank, const int64_t *dims,
                        const void *data);
/* How a graph is written again: each node, and which of the initializers are still read; all else stays. */
typedef struct quant_edit {
  td_status (*put_node)(quant_writer *w, const void *user, const quant_node *n);
  bool (*keeps)(quant_writer *w, const void *user, const char *initializer);
  const void *user;
} quant_edit;
/* Appends the model with its graph written so behind what `w` has of it, and (`microsoft`) a set of operators more.
 * The writer's texts are freed. */
td_status quant_put_model(quant_writer *w, const quant_edit *edit, bool microsoft, base_text *out);
/* A name made of one of the model's; "": out of memory, as in quant_put_model's result. */
const char *quant_name(quant_writer *w, const char *tensor, const char *what);
fmt_wire quant_graph(const quant_model *m);
#endif
