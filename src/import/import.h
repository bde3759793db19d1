/* import.h -- records to a verified graph: the one header of this room. */
#ifndef IMPORT_IMPORT_H
#define IMPORT_IMPORT_H
#include "ir/ir.h"

/* Opens a file that belongs to the model: `location` is a relative path with '/' between its parts, none of which is
 * ".." or empty. The opener must refuse whatever leaves the model's folder (links). The bytes must outlive the graph.
 */
typedef td_status (*import_open)(void *user, const char *location, const void **bytes, size_t *size, td_error *err);

/* A named tensor that the caller has in memory. */
typedef struct import_weight {
  const char *name;
  base_tensor tensor; /* any strides that are not negative */
} import_weight;

/* A model in memory. Constants of the graph point into `bytes`, which must outlive it and may not change. */
typedef struct import_source {
  const void *bytes;
  size_t size;
  const char *file;   /* its name in errors; NULL: "model" */
  const char *format; /* a name of formats.def; NULL: found from the bytes */
  import_open open;   /* NULL: external files are refused */
  void *user;         /* for `open` */
  /* Tensors that the model refers to by name and does not hold: of a program of torch.export without its archive. They
   * are shared: they must outlive the graph. */
  const import_weight *weights;
  uint32_t weight_count;
  const td_input_spec *inputs; /* what is given, for formats that do not say it */
  size_t input_count;
  const char *method; /* of a TorchScript module; NULL: "forward" */
  bool brief;         /* origins may name places of the program's own text, which import_tell makes the user's of */
} import_source;

/* Reads a model into `*graph`, with the operators of `ops`; the caller frees it with ir_graph_free. The bytes are not
 * trusted. Errors: TD_BAD_FILE with a byte offset or the node's name; TD_UNSUPPORTED with every operator that is not
 * known and how often it occurs; TD_NO_RESOURCE, also when the model would take more memory than IMPORT_MEMORY_FLOOR +
 * IMPORT_MEMORY_FACTOR times its size (function calls and loops can ask for any amount). */
td_status import_model(const import_source *source, const ir_opset *ops, const td_allocator *a, ir_graph **graph,
                       td_error *err);
/* Texts that hold origins of a model that was imported with `brief` (and without, which changes nothing) get the user's
 * lines in place of those of the program's own text: "model.py:41" for "code/__torch__/net.py:12:8", the only thing
 * that the tables of TorchScript's archives are read for. texts[i] becomes a text in `arena`, or stays: where the file
 * says no more, or memory is lacking. */
void import_tell(const import_source *source, base_arena *arena, const char **texts, uint32_t count);
/* Inputs and outputs that `text` names (td_load_options.state) become session state, which begins with the input's
 * default or zeros. Errors: TD_BAD_ARGUMENT where the text is none, names nothing, or names what does not fit; the
 * graph is then of no use. */
td_status import_keep_state(ir_graph *graph, const char *text, td_error *err);
#define IMPORT_MEMORY_FLOOR ((size_t)64 << 20)
#define IMPORT_MEMORY_FACTOR 256

/* A model that is built in C, and its weights. */
typedef struct import_builtin_source {
  const char *name;    /* "efficientnet_lite0", or "layer:" and one layer's description */
  const void *weights; /* a state_dict (torch.save, safetensors, npz); constants point into it. NULL: seeded weights */
  size_t size;
  const char *file; /* its name in errors */
  uint64_t seed;
} import_builtin_source;

/* Builds it into `*graph`, which the caller frees; the weights must outlive it. Seeded weights are a function of seed
 * and key, in the graph's arena. Errors: TD_BAD_ARGUMENT with the names there are; TD_BAD_FILE with every key that is
 * missing, superfluous or of another shape (num_batches_tracked may be there); TD_NO_RESOURCE. */
td_status import_builtin(const import_builtin_source *source, const ir_opset *ops, const td_allocator *a,
                         ir_graph **graph, td_error *err);
/* The names of the built-in models, in order; NULL after the last. */
const char *import_builtin_name(size_t index);

/* A front end: a row of formats.def. */
typedef struct import_format {
  const char *name;
  bool (*sniff)(const void *bytes, size_t size); /* cheap; may be fooled, never fails */
  td_status (*load)(const import_source *source, const ir_opset *ops, const td_allocator *a, ir_graph **graph,
                    td_error *err);
  void (*tell)(const import_source *source, base_arena *arena, const char **texts, uint32_t count); /* or NULL */
} import_format;
/* All front ends, in the order they are sniffed; *count of them. */
const import_format *import_formats(uint32_t *count);
/* The ONNX operators that can be imported, "Conv" or "com.microsoft.Attention", sorted, each once, in `arena`. False:
 * out of memory. */
bool import_onnx_names(const ir_opset *ops, base_arena *arena, const char ***names, uint32_t *count);
/* The same of PyTorch's, of any of their overloads: "aten::add". In-place forms are theirs. */
bool import_torch_names(base_arena *arena, const char ***names, uint32_t *count);
#endif
