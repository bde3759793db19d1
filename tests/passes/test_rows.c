/* Values of which one row is used. */
#include "passes/numbers.h"

#define TOKENS                                                                         \
  "input %0 \"x\": f32[2, 5, 4]\n"                                                     \
  "const %1: i64[] = {2}\n"                                                            \
  "const %2: f32[4, 4] = {1, -1, 2, 0.5, 0, 1, 3, -2, 1, 1, 0.25, 0, -1, 2, 0, 0.5}\n" \
  "const %3: f32[4] = {0.5, 1, -1, 2}\n"                                               \
  "const %4: f32[5, 1] = {1, 2, 3, 4, 5}\n"

/* A layer of a transformer, of whose result token 2 is used. */
static const char layer[] = TOKENS
    "%5 = td::linear(%0, %2) {n = 4}\n%6 = td::linear(%0, %2, %3) {n = 4}\n%7 = td::linear(%0, %2, %3) {n = 4}\n"
    "%8 = aten::unflatten(%5) {dim = 2, sizes = [2, 2]}\n"
    "%9 = aten::unflatten(%6) {dim = 2, sizes = [2, 2]}\n"
    "%10 = aten::unflatten(%7) {dim = 2, sizes = [2, 2]}\n"
    "const %11: i64[3] = {2, 5, 4}\n"
    "%12 = td::attention(%8, %9, %10) {scale = 0.5}\n"
    "%13 = aten::view(%12, %11)\n"
    "%14 = td::linear(%13, %2, %3, %0) {n = 4}\n"
    "%15 = aten::native_layer_norm(%14, %3) {eps = 0.5}\n"
    "%16 = td::linear(%15, %2) {n = 4, act = \"relu\"}\n"
    "%17, %18 = td::add_layer_norm(%16, %15, %3) {eps = 0.5}\n"
    "%19 = aten::mul(%17, %4)\n"
    "%20 = aten::add(%19, %18)\n"
    "%21 = aten::index_select(%20, %1) {dim = 1}\n"
    "output \"y\" %21\n";

static const char layer_of_rows[] =
    "input %0 \"x\": f32[2, 5, 4]\n"
    "const %1: i64[1] = {2}\n"
    "const %2: f32[4, 4] = {1, -1, 2, 0.5, 0, 1, 3, -2, 1, 1, 0.25, 0, -1, 2, 0, 0.5}\n"
    "const %3: f32[4] = {0.5, 1, -1, 2}\n"
    "const %4: i64[4] = {2, 1, 2, 2}\n"
    "const %5: i64[3] = {2, 1, 4}\n"
    "const %6: f32[5, 1] = {1, 2, 3, 4, 5}\n"
    "const %7: i64[1] = {2}\n"
    "const %8: i64[2] = {2, 4}\n"
    "%9 = aten::index_select(%0, %1) {dim = 1}: f32[2, 1, 4]\n"
    "%10 = td::linear(%9, %2) {trans_w = false, n = 4, panel = 0, strassen = false, pairs = false, act = \"none\", "
    "act_a = 0, act_b = "
    "0, act_late = "
    "false, in_front = false}: f32[2, 1, 4]\n"
    "%11 = td::linear(%0, %2, %3) {trans_w = false, n = 4, panel = 0, strassen = false, pairs = false, act = \"none\", "
    "act_a = 0, "
    "act_b = 0, act_late = "
    "false, in_front = false}: f32[2, 5, 4]\n"
    "%12 = td::linear(%0, %2, %3) {trans_w = false, n = 4, panel = 0, strassen = false, pairs = false, act = \"none\", "
    "act_a = 0, "
    "act_b = 0, act_late = "
    "false, in_front = false}: f32[2, 5, 4]\n"
    "%13 = aten::view(%10, %4) {zero_copies = false}: f32[2, 1, 2, 2]\n"
    "%14 = aten::unflatten(%11) {dim = 2, sizes = [2, 2]}: f32[2, 5, 2, 2]\n"
    "%15 = aten::unflatten(%12) {dim = 2, sizes = [2, 2]}: f32[2, 5, 2, 2]\n"
    "%16 = td::attention(%13, %14, %15) {scale = 0.5, causal = false, safe = 0, replaces = 0, pairs = false, left = "
    "-1, softcap = 0}: f32[2, "
    "1, 2, 2]\n"
    "%17 = aten::view(%16, %5) {zero_copies = false}: f32[2, 1, 4]\n"
    "%18 = td::linear(%17, %2, %3, %9) {trans_w = false, n = 4, panel = 0, strassen = false, pairs = false, act = "
    "\"none\", act_a = "
    "0, act_b = 0, "
    "act_late = false, in_front = false}: f32[2, 1, 4]\n"
    "%19 = aten::native_layer_norm(%18, %3) {axis = -1, eps = 0.5, stats_dtype = f32}: f32[2, 1, 4]\n"
    "%20 = td::linear(%19, %2) {trans_w = false, n = 4, panel = 0, strassen = false, pairs = false, act = \"relu\", "
    "act_a = 0, act_b "
    "= 0, act_late = "
    "false, in_front = false}: f32[2, 1, 4]\n"
    "%21, %22 = td::add_layer_norm(%20, %19, %3) {eps = 0.5}: f32[2, 1, 4], f32[2, 1, 4]\n"
    "%23 = aten::index_select(%6, %7) {dim = 0}: f32[1, 1]\n"
    "%24 = aten::mul(%21, %23): f32[2, 1, 4]\n"
    "%25 = aten::add(%24, %22): f32[2, 1, 4]\n"
    "%26 = aten::view(%25, %8) {zero_copies = false}: f32[2, 4]\n"
    "output \"y\" %26\n";

static void rows_go_up_to_queries(void **state) {
  (void)state;
  expect_change("rows", layer, layer_of_rows, 11);
}

/* A slice, a mask of which each query has its row, axes that change places, an open size. */
static const char masked[] =
    "input %0 \"q\": f32[5, n, 2, 3]\n"
    "input %1 \"k\": f32[n, 6, 2, 3]\n"
    "input %2 \"mask\": f32[2, 5, 6]\n"
    "const %3: i64[1] = {-2}\n"
    "const %4: i64[1] = {-1}\n"
    "const %5: i64[1] = {1}\n"
    "%6 = aten::relu(%0)\n"
    "%7 = aten::permute(%6) {dims = [1, 0, 2, 3]}\n"
    "%8 = td::attention(%7, %1, %1, %2)\n"
    "%9 = aten::slice(%8, %3, %4, %5)\n"
    "output \"y\" %9\n";

static void masks_and_axes_follow(void **state) {
  (void)state;
  expect_change("rows", masked,
                "input %0 \"q\": f32[5, n, 2, 3]\n"
                "input %1 \"k\": f32[n, 6, 2, 3]\n"
                "input %2 \"mask\": f32[2, 5, 6]\n"
                "const %3: i64[1] = {3}\n"
                "const %4: i64[1] = {3}\n"
                "%5 = aten::index_select(%0, %3) {dim = 0}: f32[1, n, 2, 3]\n"
                "%6 = aten::relu(%5): f32[1, n, 2, 3]\n"
                "%7 = aten::permute(%6) {dims = [1, 0, 2, 3]}: f32[n, 1, 2, 3]\n"
                "%8 = aten::index_select(%2, %4) {dim = 1}: f32[2, 1, 6]\n"
                "%9 = td::attention(%7, %1, %1, %8) {scale = 1, causal = false, safe = 0, replaces = 0, pairs = "
                "false, left = -1, softcap = 0}: f32[n, 1, 2, 3]\n"
                "output \"y\" %9\n",
                4);
}

static void numbers_stay(void **state) {
  (void)state;
  expect_same_numbers(layer);
  expect_same_numbers(
      "input %0 \"x\": f32[3, 5, 4]\nconst %1: i64[] = {-1}\n"
      "%2 = aten::native_layer_norm(%0)\n%3 = aten::add(%2, %0)\n"
      "%4 = aten::index_select(%3, %1) {dim = 0}\n%5 = aten::index_select(%3, %1) {dim = 0}\n"
      "%6 = aten::mul(%4, %5)\noutput \"y\" %6\n");
  /* Of one value two rows are wanted, each by another node. */
  expect_same_numbers(
      "input %0 \"x\": f32[3, 4]\nconst %1: i64[] = {0}\nconst %2: i64[] = {2}\nconst %3: f32[] = {2}\n"
      "%4 = aten::mul(%0, %3)\n%5 = aten::add(%0, %3)\n"
      "%6 = aten::index_select(%4, %1) {dim = 0}\n%7 = aten::index_select(%5, %2) {dim = 0}\n"
      "%8 = aten::mul(%6, %7)\noutput \"y\" %8\n");
}

static void others_stay(void **state) {
  (void)state;
  /* Two rows, and a row and the whole. */
  expect_same("rows",
              "input %0 \"x\": f32[3, 4]\n"
              "const %1: i64[] = {0}\n"
              "const %2: i64[] = {1}\n"
              "%3 = aten::relu(%0): f32[3, 4]\n"
              "%4 = aten::sigmoid(%0): f32[3, 4]\n"
              "%5 = aten::index_select(%3, %1) {dim = 0}: f32[4]\n"
              "%6 = aten::index_select(%3, %2) {dim = 0}: f32[4]\n"
              "%7 = aten::index_select(%4, %1) {dim = 0}: f32[4]\n"
              "output \"a\" %5\n"
              "output \"b\" %6\n"
              "output \"c\" %7\n"
              "output \"d\" %4\n");
  /* The axis a norm works along, and a view alone. */
  expect_same("rows",
              "input %0 \"x\": f32[3, 4]\n"
              "const %1: i64[] = {0}\n"
              "const %2: i64[3] = {3, 2, 2}\n"
              "%3 = aten::native_layer_norm(%0) {axis = -1, eps = 0.5, stats_dtype = f32}: f32[3, 4]\n"
              "%4 = aten::index_select(%3, %1) {dim = 1}: f32[3]\n"
              "%5 = aten::view(%0, %2) {zero_copies = false}: f32[3, 2, 2]\n"
              "%6 = aten::index_select(%5, %1) {dim = 0}: f32[2, 2]\n"
              "output \"a\" %4\n"
              "output \"b\" %6\n");
  /* A view that divides the axis, and queries that see as much as their place allows. */
  expect_same("rows",
              "input %0 \"x\": f32[2, 6, 1, 3]\n"
              "const %1: i64[3] = {4, 3, 3}\n"
              "const %2: i64[] = {1}\n"
              "%3 = aten::relu(%0): f32[2, 6, 1, 3]\n"
              "%4 = aten::view(%3, %1) {zero_copies = false}: f32[4, 3, 3]\n"
              "%5 = aten::index_select(%4, %2) {dim = 0}: f32[3, 3]\n"
              "%6 = td::attention(%0, %0, %0) {scale = 1, causal = true, safe = 0, replaces = 0, pairs = false, left = "
              "-1, softcap = 0}: "
              "f32[2, 6, 1, 3]\n"
              "%7 = aten::index_select(%6, %2) {dim = 1}: f32[2, 1, 3]\n"
              "output \"a\" %5\n"
              "output \"b\" %7\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_go_up_to_queries),
      cmocka_unit_test(masks_and_axes_follow),
      cmocka_unit_test(numbers_stay),
      cmocka_unit_test(others_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
