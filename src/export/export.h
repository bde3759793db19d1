/* export.h -- graphs in the formats of other engines. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H
#include "ir/ir.h"

/* Appends the graph as an ONNX file. TD_UNSUPPORTED names an operator or type that ONNX does not have. */
td_status export_onnx(const ir_graph *graph, base_text *model, td_error *err);
#endif
