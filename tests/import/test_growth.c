/* test_growth.c -- what a call costs grows as its work does: programs of one call run with n, 4n and 16n elements, and
 * 16 times the elements may take at most 80 times the CPU time. What looks at all pairs takes 256 times. */
#include "import/pt2_build.h"

#include <stdint.h>
#include <time.h>

enum { SMALL = 512, MOST = 16 * SMALL, TURNS = 9, TIMES = 80, WIDTH = 4 };

/* x and o: rising whole numbers; w [16, 4]. */
#define CALL_OF(target, args)                                                                                  \
  PROGRAM(T("p_w") "," T("x") "," T("o"), T("y"), NODE("torch.ops.aten." target, args, T("y")),                \
          VALUE("x", I64, EXPR("s1")) "," VALUE("o", I64, EXPR("s1")) "," VALUE("w", F32, INT(16) "," INT(4)), \
          PARAMETER("p_w", "w") "," USER("x") "," USER("o"), RESULT("y"), "")
#define FLAG(value) "{'as_bool':" value "}"

static const struct {
  const char *name, *text;
} calls[] = {
    {"embedding_bag", PROGRAM(T("p_w") "," T("x") "," T("o"), T("y"),
                              NODE("torch.ops.aten._embedding_bag_forward_only.default",
                                   ARG("weight", T("p_w")) "," ARG("indices", T("x")) "," ARG("offsets", T("o")),
                                   T("y") "," T("a") "," T("b") "," T("c")),
                              VALUE("x", I64, EXPR("s1")) "," VALUE("o", I64, EXPR("s1")),
                              PARAMETER("p_w", "w") "," USER("x") "," USER("o"), RESULT("y"), "")},
    {"searchsorted", CALL_OF("searchsorted.Tensor", ARG("sorted_sequence", T("o")) "," ARG("self", T("x")))},
    {"bucketize", CALL_OF("bucketize.Tensor", ARG("self", T("x")) "," ARG("boundaries", T("o")))},
    {"cumsum", CALL_OF("cumsum.default", ARG("self", T("x")) "," ARG("dim", INT(0)))},
    {"index_select",
     CALL_OF("index_select.default", ARG("self", T("o")) "," ARG("dim", INT(0)) "," ARG("index", T("x")))},
    {"flip", CALL_OF("flip.default", ARG("self", T("x")) "," ARG("dims", "{'as_ints':[0]}"))},
    {"add", CALL_OF("add.Tensor", ARG("self", T("x")) "," ARG("other", T("o")))}};

static int64_t numbers[2][MOST];
static float rows[16 * WIDTH];

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The least of a few runs. */
static double time_of(program *p, const char *name, int64_t count, size_t inputs) {
  double least = 1e9;
  for (int64_t i = 0; i < count; i++) {
    numbers[0][i] = i % 16;
    numbers[1][i] = i;
  }
  for (int turn = 0; turn < TURNS; turn++) {
    const double begin = cpu_seconds();
    for (size_t k = 0; k < inputs; k++) {
      td_tensor t = {.dtype = TD_I64, .rank = 1, .dims = {count}, .data = numbers[k]};
      if (td_session_set_input(p->session, k, &t, &p->err) != TD_OK) fail_msg("%s: %s", name, p->err.text);
    }
    if (td_session_run(p->session, &p->err) != TD_OK) fail_msg("%s: %s", name, p->err.text);
    const double took = cpu_seconds() - begin;
    if (turn && took < least) least = took; /* the first turn binds the sizes */
  }
  return least;
}

static void cost_grows_as_work(void **state) {
  (void)state;
  static const char *const backends[] = {"eager", "native"};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (size_t b = 0; b < 2; b++) {
      program p;
      td_named_tensor w = weight("w", rows, 2, 16, WIDTH);
      program_open(&p, calls[i].text, &w, 1, backends[b]);
      const double small = time_of(&p, calls[i].name, SMALL, 2), middle = time_of(&p, calls[i].name, MOST / 4, 2),
                   large = time_of(&p, calls[i].name, MOST, 2);
      program_close(&p);
      if (large > TIMES * small)
        fail_msg("%s on %s: %d, %d and %d elements take %.0f, %.0f and %.0f us", calls[i].name, backends[b], SMALL,
                 MOST / 4, MOST, small * 1e6, middle * 1e6, large * 1e6);
    }
}

/* A loop that appends to a list copies nothing per turn. */
static void loops_grow_as_their_turns(void **state) {
  (void)state;
  static const char *const backends[] = {"eager", "native"};
  const td_input_spec spec = {.name = "x", .dtype = TD_I64, .rank = 1, .dims = {-1}};
  for (size_t b = 0; b < 2; b++) {
    const td_load_options options = {
        .size = sizeof options, .backend = backends[b], .method = "appended", .inputs = &spec, .input_count = 1};
    program p = {0};
    if (td_model_load("tests/import/torchscript/kept.pt", &options, &p.model, &p.err) != TD_OK)
      fail_msg("%s: %s", p.err.name, p.err.text);
    assert_int_equal(td_session_new(p.model, NULL, &p.session, &p.err), TD_OK);
    const double small = time_of(&p, "a loop", SMALL, 1), large = time_of(&p, "a loop", MOST, 1);
    program_close(&p);
    if (large > TIMES * small)
      fail_msg("%s: %d and %d turns take %.0f and %.0f us", backends[b], SMALL, MOST, small * 1e6, large * 1e6);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cost_grows_as_work), cmocka_unit_test(loops_grow_as_their_turns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
