/* fuzz_tdl.c -- damaged saved plans, opened and run. The input is a list of edits of a plan that is saved here, so that
 * it outlives changes of the format: a byte that chooses the graph (from 64 on: with a variant for particular sizes;
 * top bit: checksums stay wrong), then five bytes for each edit, where (little-endian, modulo the size) and what. Loops
 * are not run: a valid file may ask for one without end. */
#include <stdlib.h>

#include "base/limited.h"
#include "plan/file.h"
#include "plan/graphs.h"
#include "plan/saved.h"
#include "compile/compile_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MAX = 64 << 20, EDIT = 5 };

static bool is_loop(const plan_exe *plan, uint32_t i) {
  const ir_op *op = plan->here.links.at[i].op;
  return op && op->flags & IR_OP_LOOP;
}

/* As if its fused loops had machine code, which is never loaded here. */
static bool add_code(plan_exe *plan) {
  static const char object[200] = "\177ELF no code";
  for (uint32_t i = 0; i < plan->functions.count; i++) {
    plan_function *f = &plan->functions.at[i];
    if (f->role != PLAN_KERNEL || !is_loop(plan, i)) continue;
    f->role = PLAN_GENERATED;
    f->code = plan_add_name(plan, "fused_0");
    plan->here.links.at[i].name = "fused_0";
    if (f->code == PLAN_NONE) return false;
  }
  for (uint32_t i = 0; i < 2; i++) {
    plan_object *to = base_vec_push(plan->arena, &plan->objects);
    if (!to) return false;
    *to = (plan_object){object, sizeof object - i};
  }
  return true;
}

static bool save_graph(uint32_t number, const ir_opset *ops, base_arena *arena, saved *file) {
  const char *text = saved_graphs[number % 64 % SAVED_GRAPHS];
  const compile_setting setting = saved_setting("interp");
  ir_graph *graph = NULL;
  plan_exe *plan = NULL;
  td_error err;
  td_status status = ir_parse(&base_libc_allocator, ops, text, strlen(text), NULL, 0, &graph, &err);
  if (status == TD_OK) status = compile_graph(graph, &setting, &base_libc_allocator, NULL, &plan, &err);
  if (status == TD_OK && number >= 64) status = saved_specialise(text, ops, plan, &err);
  if (status == TD_OK && !add_code(plan)) status = TD_NO_RESOURCE;
  if (status == TD_OK) status = saved_of((const plan_exe *const *)&plan, 1, arena, file, &err);
  plan_free(plan);
  ir_graph_free(graph);
  return status == TD_OK;
}

/* Of a trusted file the tables are looked at all the same. */
static void open_trusted(const saved *file, const td_allocator *allocator) {
  const plan_source source = {file->bytes, file->size, "net.tdl", SAVED_LIBRARY, saved_setting("interp").isa, true, 0};
  plan_exe *plan = NULL;
  td_error err;
  if (plan_open(&source, allocator, &plan, &err) != TD_OK) return;
  size_t sum = 0;
  for (uint32_t i = 0; i < plan->objects.count; i++)
    for (size_t k = 0; k < plan->objects.at[i].size; k++) sum += ((const uint8_t *)plan->objects.at[i].bytes)[k];
  if (sum == 1) abort(); /* every byte was there to be read */
  plan_free(plan);
}

static bool has_loops(const plan_exe *plan) {
  for (uint32_t k = 0; k < plan_count(plan); k++)
    for (uint32_t i = 0; i < plan_at(plan, k)->steps.count; i++)
      if (plan_at(plan, k)->steps.at[i].kind == PLAN_LOOP) return true;
  return false;
}

/* Zeros for every input that is a tensor of few elements. */
static bool feed(const plan_exe *plan, run_session *session, base_arena *arena) {
  td_error err;
  for (uint32_t i = 0; i < plan->inputs.count; i++) {
    const plan_port *port = &plan->inputs.at[i];
    int64_t dims[BASE_MAX_RANK], count = 1;
    size_t bytes;
    if (port->rank < 0 || port->fallback != PLAN_NONE) continue;
    for (int32_t k = 0; k < port->rank; k++) dims[k] = base_dim_known(port->dims[k]) ? port->dims[k] : 2;
    if (!base_numel(port->rank, dims, &count) || count > 4096 || !base_dtype_bytes(port->dtype, count, &bytes))
      return false;
    void *data = base_arena_alloc_aligned(arena, bytes + 1, 64);
    if (!data) return false;
    const base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(data, port->dtype, port->rank, dims)};
    if (run_set_input(session, i, &value, &err) != TD_OK) return false;
  }
  return true;
}

static void run(const plan_exe *plan, const td_allocator *allocator, base_arena *arena) {
  run_session *session = NULL;
  td_error err;
  if (run_session_new(plan, allocator, NULL, &session, &err) != TD_OK) return;
  if (feed(plan, session, arena))
    for (uint32_t i = 0; i < 2; i++) run_session_run(session, &err);
  run_session_free(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  limited memory = {.counting = {.inner = &base_libc_allocator}, .most = MEMORY_MAX};
  const td_allocator allocator = limited_allocator(&memory);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const ir_opset *ops = arena ? ops_set(arena) : NULL;
  saved file;
  if (!ops || !save_graph(data[0] & 127, ops, arena, &file)) abort();
  for (size_t i = 1; i + EDIT <= size; i += EDIT) {
    uint32_t at;
    memcpy(&at, data + i, sizeof at);
    file.bytes[at % file.size] = (char)data[i + 4];
  }
  if (!(data[0] & 128)) saved_seal(&file);
  plan_exe *plan = NULL;
  td_error err = {0};
  const td_status status = saved_open(&file, ops, &allocator, &plan, &err);
  if ((status == TD_OK) != (plan != NULL) || (status != TD_OK && !err.text[0])) abort();
  if (plan && !has_loops(plan)) run(plan, &allocator, arena);
  plan_free(plan);
  open_trusted(&file, &allocator);
  base_arena_free(arena);
  if (memory.counting.live != 0) abort(); /* whatever happened, everything was given back */
  return 0;
}
