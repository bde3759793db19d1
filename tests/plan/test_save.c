/* test_save.c -- plans to files and back: the same bits, and an error for whatever is not a plan. */
#include "runtime/harness.h"

#include "plan/file.h"
#include "plan/graphs.h"
#include "plan/saved.h"

/* A graph compiled and saved; everything in an arena of its own. */
typedef struct bench {
  base_arena *arena;
  const ir_opset *ops;
  ir_graph *graph;
  plan_exe *plan;
  saved file;
  td_error err;
} bench;

static void bench_open(bench *b, const char *text, const char *backend) {
  *b = (bench){.arena = base_arena_new(&base_libc_allocator)};
  b->ops = ops_set(b->arena);
  b->graph = parse_graph(b->arena, text, &base_libc_allocator);
  const compile_setting setting = saved_setting(backend);
  if (compile_graph(b->graph, &setting, &base_libc_allocator, NULL, &b->plan, &b->err) != TD_OK)
    fail_msg("%s: %s", b->err.name, b->err.text);
  ir_graph_free(b->graph); /* plans need none */
  if (saved_of((const plan_exe *const *)&b->plan, 1, b->arena, &b->file, &b->err) != TD_OK) fail_msg("%s", b->err.text);
}

static void bench_close(bench *b) {
  plan_free(b->plan);
  base_arena_free(b->arena);
}

/* Something for every input: counting numbers, true, three iterations; open sizes are 2. */
static void feed(base_arena *arena, const plan_exe *plan, run_session *session) {
  td_error err;
  for (uint32_t i = 0; i < plan->inputs.count; i++) {
    const plan_port *port = &plan->inputs.at[i];
    int64_t dims[BASE_MAX_RANK], count = 1;
    if (port->fallback != PLAN_NONE) continue;
    for (int32_t k = 0; k < port->rank; k++) count *= dims[k] = base_dim_known(port->dims[k]) ? port->dims[k] : 2;
    base_tensor t =
        base_tensor_of(base_arena_alloc_aligned(arena, (size_t)count * 16, 64), port->dtype, port->rank, dims);
    for (int64_t k = 0; k < count; k++) base_store_f64(port->dtype, t.data, k, (double)(3 - k));
    const base_value value = {.kind = BASE_TENSOR, .tensor = t};
    if (run_set_input(session, i, &value, &err) != TD_OK) fail_msg("%s", err.text);
  }
}

/* All outputs of three runs, one after the other. */
static size_t outputs_of(base_arena *arena, const plan_exe *plan, char *to, size_t room) {
  run_session *session;
  td_error err;
  size_t used = 0;
  if (run_session_new(plan, &base_libc_allocator, NULL, &session, &err) != TD_OK) fail_msg("%s", err.text);
  feed(arena, plan, session);
  for (uint32_t run = 0; run < 3; run++) {
    if (run_session_run(session, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
    for (uint32_t i = 0; i < plan->outputs.count; i++) {
      const base_value *value;
      assert_int_equal(run_output(session, i, &value, &err), TD_OK);
      const size_t bytes = base_tensor_bytes(&value->tensor);
      assert_true(used + bytes <= room);
      memcpy(to + used, value->tensor.data, bytes);
      used += bytes;
    }
  }
  run_session_free(session);
  return used;
}

static void round_trips(void **state) {
  (void)state;
  static const char *const backends[] = {"eager", "aot_eager", "interp"};
  for (uint32_t g = 0; g < SAVED_GRAPHS; g++)
    for (size_t k = 0; k < 3; k++) {
      bench b;
      char first[4096], second[4096];
      bench_open(&b, saved_graphs[g], backends[k]);
      const size_t bytes = outputs_of(b.arena, b.plan, first, sizeof first);
      plan_exe *again = NULL;
      if (saved_open(&b.file, b.ops, &base_libc_allocator, &again, &b.err) != TD_OK)
        fail_msg("graph %u, %s: %s", g, backends[k], b.err.text);
      assert_string_equal(plan_name(again, again->backend), backends[k]);
      assert_int_equal(outputs_of(b.arena, again, second, sizeof second), bytes);
      assert_memory_equal(first, second, bytes);
      /* Both plans read the same to people, and a file of the second is the first one's. */
      base_text texts[2] = {{.allocator = &base_libc_allocator}, {.allocator = &base_libc_allocator}};
      assert_int_equal(plan_print(b.plan, &texts[0]), TD_OK);
      assert_int_equal(plan_print(again, &texts[1]), TD_OK);
      assert_string_equal(texts[0].at, texts[1].at);
      saved twice = {0};
      assert_int_equal(saved_of((const plan_exe *const *)&again, 1, b.arena, &twice, &b.err), TD_OK);
      assert_int_equal(twice.size, b.file.size);
      base_text_free(&texts[0]);
      base_text_free(&texts[1]);
      plan_free(again);
      bench_close(&b);
    }
}

static td_status reopen(bench *b) {
  plan_exe *plan = NULL;
  const td_status status = saved_open(&b->file, b->ops, &base_libc_allocator, &plan, &b->err);
  plan_free(plan);
  return status;
}

/* Opens it, and makes a session of it. */
static td_status reuse(bench *b) {
  plan_exe *plan = NULL;
  run_session *session = NULL;
  td_status status = saved_open(&b->file, b->ops, &base_libc_allocator, &plan, &b->err);
  if (status == TD_OK) status = run_session_new(plan, &base_libc_allocator, NULL, &session, &b->err);
  run_session_free(session);
  plan_free(plan);
  return status;
}

/* A damaged constant: the file opens, as constants are not read for that, but nothing is made of it, neither a session
 * nor another file, whichever comes first, and however often. */
static void makes_nothing_of_damaged_constants(void **state) {
  (void)state;
  bench b;
  bench_open(&b, saved_graphs[0], "interp");
  const uint32_t count = ((file_head *)(void *)b.file.bytes)->section_count;
  const file_section *constants = saved_section(&b.file, count - 1);
  assert_int_equal(constants->kind, FILE_CONSTANTS);
  assert_true(constants->bytes > 0);
  for (int first = 0; first < 2; first++) {
    plan_exe *plan = NULL;
    run_session *session = NULL;
    saved copy;
    b.file.bytes[constants->offset] ^= 1;
    if (saved_open(&b.file, b.ops, &base_libc_allocator, &plan, &b.err) != TD_OK) fail_msg("%s", b.err.text);
    for (int i = first; i < first + 3; i++) {
      b.err = (td_error){0};
      assert_int_equal(i % 2 ? run_session_new(plan, &base_libc_allocator, NULL, &session, &b.err)
                             : saved_of((const plan_exe *const *)&plan, 1, b.arena, &copy, &b.err),
                       TD_BAD_FILE);
      assert_string_equal(b.err.name, "net.tdl");
      assert_int_equal(b.err.offset, constants->offset);
    }
    b.file.bytes[constants->offset] ^= 1;
    assert_int_equal(run_session_new(plan, &base_libc_allocator, NULL, &session, &b.err), TD_OK);
    run_session_free(session);
    plan_free(plan);
  }
  bench_close(&b);
}

/* A bit anywhere but in the padding between sections is noticed, and the error says where. */
static void notices_damage(void **state) {
  (void)state;
  bench b;
  bench_open(&b, saved_graphs[0], "interp");
  const uint32_t count = ((file_head *)(void *)b.file.bytes)->section_count;
  for (uint32_t i = 0; i < count; i++) {
    const file_section *s = saved_section(&b.file, i);
    if (!s->bytes) continue;
    b.file.bytes[s->offset + s->bytes / 2] ^= 16;
    const bool constants = s->kind == FILE_CONSTANTS; /* between them there is padding */
    if (reuse(&b) == TD_OK) assert_true(constants);
    else if (b.err.offset < (int64_t)s->offset) fail_msg("section %u: offset %lld", i, (long long)b.err.offset);
    b.file.bytes[s->offset + s->bytes / 2] ^= 16;
  }
  const file_section *last = saved_section(&b.file, count - 1);
  assert_int_equal(last->kind, FILE_CONSTANTS);
  b.file.bytes[last->offset] ^= 1;
  assert_int_equal(reuse(&b), TD_BAD_FILE);
  assert_int_equal(b.err.offset, last->offset);
  b.file.bytes[last->offset] ^= 1;
  for (size_t i = 0; i < sizeof(file_head) + count * sizeof(file_section); i++) {
    b.file.bytes[i] ^= 1;
    assert_int_not_equal(reopen(&b), TD_OK);
    b.file.bytes[i] ^= 1;
  }
  assert_int_equal(reuse(&b), TD_OK);
  bench_close(&b);
}

static void refuses_other_lengths(void **state) {
  (void)state;
  bench b;
  bench_open(&b, saved_graphs[2], "interp");
  const size_t size = b.file.size;
  for (b.file.size = 0; b.file.size < size; b.file.size += b.file.size < 4096 ? 1 : 61)
    assert_int_equal(reopen(&b), TD_BAD_FILE);
  b.file.size = size;
  assert_int_equal(reopen(&b), TD_OK);
  bench_close(&b);
}

static void refuses_other_versions(void **state) {
  (void)state;
  bench b;
  bench_open(&b, saved_graphs[0], "interp");
  file_head *head = (file_head *)(void *)b.file.bytes;
  head->version++;
  saved_seal(&b.file);
  assert_int_equal(reopen(&b), TD_UNSUPPORTED);
  assert_non_null(strstr(b.err.text, "compile the model again"));
  head->version--;
  strcpy(head->library, "0.0.0");
  saved_seal(&b.file);
  assert_int_equal(reopen(&b), TD_UNSUPPORTED);
  assert_non_null(strstr(b.err.text, "0.0.0"));
  bench_close(&b);
}

/* Section `kind` of the one variant. */
static char *table(const bench *b, file_kind kind) {
  for (uint32_t i = 0;; i++)
    if (saved_section(&b->file, i)->kind == kind) return b->file.bytes + saved_section(&b->file, i)->offset;
}

static void names_missing_kernels(void **state) {
  (void)state;
  bench b;
  bench_open(&b, saved_graphs[0], "interp");
  char *names = table(&b, FILE_NAMES);
  plan_function *f = (plan_function *)(void *)table(&b, FILE_FUNCTIONS);
  while (!f->kernel) f++;
  names[f->kernel] = 'q';
  saved_seal(&b.file);
  assert_int_equal(reopen(&b), TD_UNSUPPORTED);
  assert_non_null(strstr(b.err.text, "needs the kernel qern_"));
  names[f->kernel] = 'k';
  names[f->op] = 'q';
  saved_seal(&b.file);
  assert_int_equal(reopen(&b), TD_UNSUPPORTED);
  assert_non_null(strstr(b.err.text, "needs the operator q"));
  bench_close(&b);
}

/* Lies whose checksums are right. Each is seen before anything is run. */
static void refuses_lies(void **state) {
  (void)state;
  bench b;
  bench_open(&b, saved_graphs[1], "interp");
  plan_slot *slots = (plan_slot *)(void *)table(&b, FILE_SLOTS);
  plan_step *steps = (plan_step *)(void *)table(&b, FILE_STEPS);
  uint32_t *operands = (uint32_t *)(void *)table(&b, FILE_OPERANDS);
  plan_port *outputs = (plan_port *)(void *)table(&b, FILE_OUTPUTS);
  struct {
    uint32_t *at;
    uint32_t lie;
  } lies[] = {
      {&slots[0].place, 99},        {(uint32_t *)&slots[0].rank, 9}, {&slots[1].name, 1 << 30},
      {&steps[0].kind, 7},          {&steps[0].in, 1 << 20},         {&steps[0].in_count, 1000},
      {&steps[0].function, 77},     {&steps[0].attrs, 1 << 20},      {&steps[0].attrs, 1},
      {&steps[0].origins, 1 << 20}, {&operands[steps[0].in], 12345}, {&operands[steps[0].in], operands[steps[1].out]},
      {&outputs[0].slot, 500},      {&outputs[0].kind, 50},          {&outputs[0].name, 1 << 30},
      {&outputs[0].is_complex, 2},  {&steps[0].kind, PLAN_LOOP},     {&steps[0].kind, PLAN_IF},
      {&steps[0].kind, PLAN_END},   {&steps[0].kind, PLAN_SHOW}};
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    const uint32_t truth = *lies[i].at;
    *lies[i].at = lies[i].lie;
    saved_seal(&b.file);
    if (reopen(&b) != TD_BAD_FILE) fail_msg("lie %zu: %s", i, b.err.text);
    *lies[i].at = truth;
  }
  saved_seal(&b.file);
  assert_int_equal(reopen(&b), TD_OK);
  bench_close(&b);
}

/* Lies about sizes and types, which only a binding sees: before the step that they would lead astray. */
static void stops_at_wrong_sizes(void **state) {
  (void)state;
  bench b;
  bench_open(&b, saved_graphs[1], "aot_eager");
  plan_slot *slots = (plan_slot *)(void *)table(&b, FILE_SLOTS);
  for (uint32_t lie = 0; lie < 2; lie++) {
    plan_slot truth = slots[1];
    plan_exe *plan = NULL;
    run_session *session = NULL;
    if (lie == 0) slots[1].dims[0] = 1;
    if (lie == 1) slots[1].dims[1] = 1 << 20;
    saved_seal(&b.file);
    td_status status = saved_open(&b.file, b.ops, &base_libc_allocator, &plan, &b.err);
    if (status == TD_OK) status = run_session_new(plan, &base_libc_allocator, NULL, &session, &b.err);
    if (status == TD_OK) {
      feed(b.arena, plan, session);
      status = run_session_run(session, &b.err);
    }
    if (status == TD_OK) fail_msg("lie %u is believed", lie);
    run_session_free(session);
    plan_free(plan);
    slots[1] = truth;
  }
  bench_close(&b);
}

static void chooses_variants(void **state) {
  (void)state;
  const plan_exe *plans[3];
  bench b;
  bench_open(&b, saved_graphs[0], "interp");
  uint32_t count = 0, level_count;
  const kern_level *levels = kern_levels(&level_count);
  compile_setting setting = saved_setting("interp");
  const uint32_t here = setting.isa;
  for (uint32_t i = 0; i < level_count && count < 3; i++) {
    if (levels[i].isa & ~here) continue;
    plan_exe *plan = NULL;
    setting.isa = levels[i].isa;
    ir_graph *graph = parse_graph(b.arena, saved_graphs[0], &base_libc_allocator);
    assert_int_equal(compile_graph(graph, &setting, &base_libc_allocator, NULL, &plan, &b.err), TD_OK);
    ir_graph_free(graph);
    plans[count++] = plan;
  }
  saved file = {0};
  assert_int_equal(saved_of(plans, count, b.arena, &file, &b.err), TD_OK);
  for (uint32_t i = 0; i < count; i++) {
    plan_exe *found = NULL;
    plan_source source = {file.bytes, file.size, "net.tdl", SAVED_LIBRARY, plans[i]->isa, false, 0};
    assert_int_equal(plan_open(&source, &base_libc_allocator, &found, &b.err), TD_OK);
    assert_int_equal(found->isa, plans[i]->isa);
    plan_free(found);
  }
  /* Without the first, nothing is left for a CPU that has nothing. */
  assert_int_equal(saved_of(plans + count - 1, 1, b.arena, &file, &b.err), TD_OK);
  plan_exe *none = NULL;
  const plan_source source = {file.bytes, file.size, "net.tdl", SAVED_LIBRARY, 0, false, 0};
  assert_int_equal(plan_open(&source, &base_libc_allocator, &none, &b.err), TD_UNSUPPORTED);
  assert_non_null(strstr(b.err.text, plans[count - 1]->level));
  for (uint32_t i = 0; i < count; i++) plan_free((plan_exe *)(uintptr_t)plans[i]);
  bench_close(&b);
}

static void keeps_strings(void **state) {
  (void)state;
  bench b;
  bench_open(&b, "const %0 \"names\": string[2] = {\"one\", \"two words\"}\noutput \"names\" %0\n", "interp");
  plan_exe *again = NULL;
  if (saved_open(&b.file, b.ops, &base_libc_allocator, &again, &b.err) != TD_OK) fail_msg("%s", b.err.text);
  const td_string *texts = plan_constant(again, &again->slots.at[again->outputs.at[0].slot]);
  assert_int_equal(texts[1].length, 9);
  assert_memory_equal(texts[1].at, "two words", 9);
  plan_free(again);
  bench_close(&b);
}

/* Every allocation may fail; then all is given back. */
static void survives_lack(void **state) {
  (void)state;
  bench b;
  bench_open(&b, saved_graphs[2], "interp");
  td_status status = TD_NO_RESOURCE;
  for (uint64_t n = 1; status != TD_OK; n++) {
    base_counting counting = {.inner = &base_libc_allocator, .fail_at = n, .each = true};
    const td_allocator allocator = base_counting_allocator(&counting);
    plan_exe *plan = NULL;
    status = saved_open(&b.file, b.ops, &allocator, &plan, &b.err);
    if (status != TD_OK && status != TD_NO_RESOURCE) fail_msg("allocation %llu: %s", (unsigned long long)n, b.err.text);
    plan_free(plan);
    assert_int_equal(counting.live, 0);
  }
  bench_close(&b);
}

static void count_warning(void *user, const char *text) {
  assert_true(text && *text);
  ++*(int *)user;
}

/* Machine code that cannot be loaded is left, with a warning; whoever is strict gets an error. */
static void code_that_cannot_be_opened(void **state) {
  (void)state;
  bench b;
  bench_open(&b, saved_graphs[0], "interp");
  for (int strict = 0; strict < 2; strict++) {
    int warned = 0;
    compile_setting setting = saved_setting("interp");
    setting.options.strict = strict;
    setting.options.warn = count_warning;
    setting.options.warn_user = &warned;
    const plan_source source = {b.file.bytes, b.file.size, "net.tdl", SAVED_LIBRARY, setting.isa, false, 0};
    plan_exe *plan = NULL;
    assert_int_equal(plan_open(&source, &base_libc_allocator, &plan, &b.err), TD_OK);
    plan_object *object = base_vec_push(plan->arena, &plan->objects);
    assert_non_null(object);
    *object = (plan_object){"no object", 9};
    b.err = (td_error){0};
    assert_int_equal(compile_restore(plan, b.ops, &setting, &b.err), strict ? TD_NO_RESOURCE : TD_OK);
    assert_int_equal(warned, !strict);
    assert_int_equal(b.err.text[0] != 0, strict);
    if (!strict) assert_int_equal(plan->objects.count, 0);
    plan_free(plan);
  }
  bench_close(&b);
}

/* What a plan needs to run where there are no operators: kernels by name. */
static bool no_operator(const void *user, const char *name, plan_operator *found) {
  (void)user;
  (void)name;
  (void)found;
  return false;
}

static bool kernel_alone(const void *user, const char *name, plan_kernel *found) {
  (void)user;
  const kern_row *row = kern_find(name);
  if (row) *found = (plan_kernel){.run = row->run, .isa = row->isa, .takes = PLAN_STRIDED, .gives = PLAN_STRIDED};
  return row != NULL;
}

static void runs_without_operators(void **state) {
  (void)state;
  bench b;
  char first[4096], second[4096];
  bench_open(&b, saved_graphs[0], "interp");
  const size_t bytes = outputs_of(b.arena, b.plan, first, sizeof first);
  const plan_symbols symbols = {.find_operator = no_operator, .find_kernel = kernel_alone};
  const plan_source source = {
      b.file.bytes, b.file.size, "net.tdl", SAVED_LIBRARY, saved_setting("interp").isa, false, 0};
  plan_exe *plan = NULL;
  assert_int_equal(plan_open(&source, &base_libc_allocator, &plan, &b.err), TD_OK);
  if (plan_complete(plan, &symbols, &b.err) != TD_OK) fail_msg("%s", b.err.text);
  assert_int_equal(outputs_of(b.arena, plan, second, sizeof second), bytes);
  assert_memory_equal(first, second, bytes);
  plan_free(plan);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),
      cmocka_unit_test(notices_damage),
      cmocka_unit_test(makes_nothing_of_damaged_constants),
      cmocka_unit_test(refuses_other_lengths),
      cmocka_unit_test(refuses_other_versions),
      cmocka_unit_test(names_missing_kernels),
      cmocka_unit_test(refuses_lies),
      cmocka_unit_test(stops_at_wrong_sizes),
      cmocka_unit_test(chooses_variants),
      cmocka_unit_test(keeps_strings),
      cmocka_unit_test(survives_lack),
      cmocka_unit_test(code_that_cannot_be_opened),
      cmocka_unit_test(code_that_cannot_be_opened),
      cmocka_unit_test(runs_without_operators),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
