/* link.c -- what a process with operators and kernels knows by name. */
#include "codegen/codegen.h"
#include "compile/compile_priv.h"
#include "ir/eval.h"
#include "kernels/loops/loops.h"

#include <string.h>

static const void *loop_program(const base_attrs *attrs, base_arena *arena) {
  return kern_fused_ready(attrs, false, arena);
}

static const void *chain_program(const base_attrs *attrs, base_arena *arena) {
  return kern_fused_ready(attrs, true, arena);
}

static bool find_operator(const void *user, const char *name, plan_operator *found) {
  const compile_names *names = user;
  const ir_op *op = ir_opset_find(names->ops, name);
  if (!op) op = compile_injected(name);
  if (!op) return false;
  const bool defines = op->flags & IR_OP_DEFINES;
  *found = (plan_operator){.op = op,
                           .reference = op->reference,
                           .view = op->view,
                           .define = defines ? NULL : ir_define_outputs,
                           .check = defines ? NULL : ir_check_outputs,
                           .tells_sources = op->flags & IR_OP_LOOP,
                           .in_place = op->flags & IR_OP_IN_PLACE ? UINT32_MAX : 0,
                           .shows_dense = !(op->flags & IR_OP_VIEW),
                           .program = op->flags & IR_OP_CHAIN  ? chain_program
                                      : op->flags & IR_OP_LOOP ? loop_program
                                                               : NULL,
                           .work = ir_call_work};
  return true;
}

static bool find_kernel(const void *user, const char *name, plan_kernel *found) {
  const compile_names *names = user;
  const kern_row *row = kern_find(name);
  if (!row || row->isa & ~names->isa) return false;
  *found = (plan_kernel){.run = row->run,
                         .isa = row->isa,
                         .parallel = row->flags & KERN_PARALLEL,
                         .takes = row->flags & KERN_STRIDED_IN   ? PLAN_STRIDED | PLAN_PITCHED
                                  : row->flags & KERN_PITCHED_IN ? PLAN_PITCHED
                                                                 : 0,
                         .gives = row->family == KERN_COPY        ? PLAN_STRIDED | PLAN_PITCHED
                                  : row->flags & KERN_PITCHED_OUT ? PLAN_PITCHED
                                                                  : 0,
                         .in_place = row->flags & KERN_RESIDUAL_OUT ? 1u << KERN_IN_RESIDUAL : 0,
                         .appends = row->flags & KERN_APPENDS};
  return true;
}

static bool find_code(const void *user, const char *name, plan_generated *found) {
  const compile_names *names = user;
  for (uint32_t i = 0; i < names->generated_count; i++)
    if (strcmp(names->generated[i].name, name) == 0) {
      *found = (plan_generated){names->generated[i].run, names->generated[i].body};
      return true;
    }
  return false;
}

plan_symbols compile_symbols(const compile_names *names) {
  return (plan_symbols){.user = names,
                        .knows_operators = true,
                        .find_operator = find_operator,
                        .find_kernel = find_kernel,
                        .find_code = find_code,
                        .copy = kern_copy_any,
                        .copy_check = kern_copy_check,
                        .copy_tail = kern_copy_tail,
                        .copy_work = kern_copy_work};
}
