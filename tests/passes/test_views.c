/* Views: permutations that cancel, that move nothing, and views that would keep an addition from its product. */
#include "passes/numbers.h"

static void permutations_join(void **state) {
  (void)state;
  expect_change("views",
                "input %0 \"x\": f32[2, 3, n]\n"
                "%1 = aten::permute(%0) {dims = [1, 0, 2]}\n"
                "%2 = aten::permute(%1) {dims = [1, 0, 2]}\n"
                "%3 = aten::permute(%1) {dims = [2, 0, -2]}\n"
                "%4 = aten::permute(%3) {dims = [0, 1, 2]}\n"
                "output \"a\" %2\noutput \"b\" %4\n",
                "input %0 \"x\": f32[2, 3, n]\n"
                "%1 = aten::permute(%0) {dims = [2, 1, 0]}: f32[n, 3, 2]\n"
                "output \"a\" %0\noutput \"b\" %1\n",
                3);
}

static void what_moves_nothing_is_a_view(void **state) {
  (void)state;
  expect_change("views",
                "input %0 \"x\": f32[1, 2, n]\n"
                "%1 = aten::permute(%0) {dims = [1, 0, 2]}\n"
                "%2 = aten::relu(%1)\n"
                "output \"y\" %2\n",
                "input %0 \"x\": f32[1, 2, n]\n"
                "const %1: i64[3] = {2, 1, -1}\n"
                "%2 = aten::view(%0, %1) {zero_copies = false}: f32[2, 1, n]\n"
                "%3 = aten::relu(%2): f32[2, 1, n]\n"
                "output \"y\" %3\n",
                1);
  /* a view of what is strided would be a copy */
  expect_same("views",
              "input %0 \"x\": f32[1, 2, 2]\n"
              "%1 = aten::flip(%0) {dims = [2]}: f32[1, 2, 2]\n"
              "%2 = aten::permute(%1) {dims = [1, 0, 2]}: f32[2, 1, 2]\n"
              "output \"y\" %2\n");
}

static void views_move_in_front_of_products(void **state) {
  (void)state;
  expect_change("views",
                "input %0 \"x\": f32[3, 1, 2]\n"
                "const %1: f32[2, 1] = {1, 2}\n"
                "const %2: i64[2] = {3, 2}\n"
                "const %3: i64[3] = {3, 1, 1}\n"
                "%4 = aten::view(%0, %2)\n"
                "%5 = td::linear(%4, %1) {n = 1}\n"
                "%6 = aten::view(%5, %3)\n"
                "%7 = aten::permute(%6) {dims = [1, 0, 2]}\n"
                "output \"y\" %7\n",
                "input %0 \"x\": f32[3, 1, 2]\n"
                "const %1: i64[3] = {1, 3, 2}\n"
                "const %2: f32[2, 1] = {1, 2}\n"
                "%3 = aten::view(%0, %1) {zero_copies = false}: f32[1, 3, 2]\n"
                "%4 = td::linear(%3, %2) {trans_w = false, n = 1, panel = 0, strassen = false, pairs = false, act = "
                "\"none\", act_a = "
                "0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 3, 1]\n"
                "output \"y\" %4\n",
                2);
  /* the features are regrouped; somebody else uses the product */
  expect_same("views",
              "input %0 \"x\": f32[3, 2]\n"
              "const %1: f32[2, 2] = {1, 2, 3, 4}\n"
              "const %2: i64[1] = {6}\n"
              "const %3: i64[3] = {3, 1, 2}\n"
              "%4 = td::linear(%0, %1) {trans_w = false, n = 2, panel = 0, strassen = false, pairs = false, act = "
              "\"none\", act_a = "
              "0, act_b = 0, "
              "act_late = false, in_front = false}: f32[3, 2]\n"
              "%5 = aten::view(%4, %2) {zero_copies = false}: f32[6]\n"
              "%6 = aten::view(%4, %3) {zero_copies = false}: f32[3, 1, 2]\n"
              "output \"a\" %5\noutput \"b\" %6\n");
  /* the view between is wanted, too: the product would be computed twice */
  expect_change("views",
                "input %0 \"x\": f32[3, 2]\n"
                "const %1: f32[2, 2] = {1, 2, 3, 4}\n"
                "const %2: i64[1] = {6}\n"
                "const %3: i64[3] = {3, 1, 2}\n"
                "%4 = td::linear(%0, %1) {n = 2}\n"
                "%5 = aten::view(%4, %2)\n"
                "%6 = aten::view(%5, %3)\n"
                "output \"a\" %5\noutput \"b\" %6\n",
                "input %0 \"x\": f32[3, 2]\n"
                "const %1: f32[2, 2] = {1, 2, 3, 4}\n"
                "const %2: i64[1] = {6}\n"
                "const %3: i64[3] = {3, 1, 2}\n"
                "%4 = td::linear(%0, %1) {trans_w = false, n = 2, panel = 0, strassen = false, pairs = false, act = "
                "\"none\", act_a = "
                "0, act_b = 0, "
                "act_late = false, in_front = false}: f32[3, 2]\n"
                "%5 = aten::view(%4, %2) {zero_copies = false}: f32[6]\n"
                "%6 = aten::view(%4, %3) {zero_copies = false}: f32[3, 1, 2]\n"
                "output \"a\" %5\noutput \"b\" %6\n",
                1);
}

/* Of several open sizes, what its operand has in the same place. */
static void views_join(void **state) {
  (void)state;
  expect_change("views",
                "input %0 \"x\": f32[n, k, 6]\n"
                "const %1: i64[4] = {0, 0, 2, 3}\n"
                "const %2: i64[4] = {0, -1, 3, 2}\n"
                "%3 = aten::view(%0, %1) {zero_copies = true}\n"
                "%4 = aten::view(%3, %2) {zero_copies = true}\n"
                "output \"y\" %4\n",
                "input %0 \"x\": f32[n, k, 6]\n"
                "const %1: i64[4] = {0, 0, 3, 2}\n"
                "%2 = aten::view(%0, %1) {zero_copies = true}: f32[n, k, 3, 2]\n"
                "output \"y\" %2\n",
                1);
}

/* A view has room for one open size that is not copied, and for none where there are no elements. */
static void what_no_view_can_say_stays(void **state) {
  (void)state;
  expect_same("views",
              "input %0 \"x\": f32[n, k]\n"
              "const %1: f32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
              "const %2: i64[3] = {-1, 4, 3}\n"
              "%3 = td::linear(%0, %1) {trans_w = false, n = 3, panel = 0, strassen = false, pairs = false, act = "
              "\"none\", act_a = "
              "0, act_b = 0, "
              "act_late = false, in_front = false}: f32[n, 3]\n"
              "%4 = aten::view(%3, %2) {zero_copies = false}: f32[div(n, 4), 4, 3]\n"
              "output \"y\" %4\n");
}

/* Tuples of one index, and repeats of what is there once; not tuples of more, nor what is no number of times. */
static void what_views_can_say_they_say(void **state) {
  (void)state;
  expect_change("views",
                "input %0 \"x\": f32[n, 3]\n"
                "input %1 \"i\": i64[5, 1]\n"
                "const %2: i64[3] = {4, 1, 1}\n"
                "%3 = td::gather_nd(%0, %1)\n"
                "%4 = aten::repeat(%3, %2)\n"
                "output \"y\" %4\n",
                "input %0 \"x\": f32[n, 3]\n"
                "input %1 \"i\": i64[5, 1]\n"
                "const %2: i64[1] = {1}\n"
                "const %3: i64[3] = {4, -1, -1}\n"
                "%4 = aten::squeeze(%1, %2): i64[5]\n"
                "%5 = aten::index_select(%0, %4) {dim = 0}: f32[5, 3]\n"
                "%6 = aten::expand(%5, %3): f32[4, 5, 3]\n"
                "output \"y\" %6\n",
                2);
  expect_change("views", /* whole numbers too, but for lists of sizes */
                "input %0 \"x\": i64[n, 3]\n"
                "input %1 \"s\": i64[3]\n"
                "const %2: i64[1] = {2}\n"
                "%3 = aten::index_select(%0, %2) {dim = -1}\n"
                "%4 = aten::index_select(%1, %2) {dim = 0}\n"
                "output \"y\" %3\noutput \"t\" %4\n",
                "input %0 \"x\": i64[n, 3]\n"
                "input %1 \"s\": i64[3]\n"
                "const %2: i64[1] = {2}\n"
                "const %3: i64[1] = {3}\n"
                "const %4: i64[1] = {1}\n"
                "const %5: i64[1] = {1}\n"
                "const %6: i64[1] = {2}\n"
                "%7 = aten::slice(%0, %2, %3, %4, %5): i64[n, 1]\n"
                "%8 = aten::index_select(%1, %6) {dim = 0}: i64[1]\n"
                "output \"y\" %7\noutput \"t\" %8\n",
                1);
  expect_same("views",
              "input %0 \"x\": f32[3, 3]\n"
              "input %1 \"i\": i64[5, 2]\n"
              "input %2 \"j\": i64[3, 1]\n"
              "const %3: i64[1] = {2}\n"
              "const %4: i64[1] = {0}\n"
              "%5 = td::gather_nd(%0, %1) {batch_dims = 0}: f32[5]\n"
              "%6 = td::gather_nd(%0, %2) {batch_dims = 1}: f32[3]\n"
              "%7 = aten::repeat(%5, %3): f32[10]\n"
              "%8 = aten::repeat(%6, %4): f32[0]\n"
              "output \"a\" %7\noutput \"b\" %8\n");
}

/* Single elements that are rows of a matrix, and tuples of indices in one. */
static void places_are_told_by_few_numbers(void **state) {
  (void)state;
  expect_change("views",
                "input %0 \"x\": f32[12]\n"
                "const %1: i64[3, 4] = {4, 5, 6, 7, -12, 1, 2, 3, 8, 9, 10, 11}\n"
                "%2 = aten::index_select(%0, %1) {dim = -1}\n"
                "output \"y\" %2\n",
                "input %0 \"x\": f32[12]\n"
                "const %1: i64[2] = {3, 4}\n"
                "const %2: i64[3] = {1, 0, 2}\n"
                "%3 = aten::view(%0, %1) {zero_copies = false}: f32[3, 4]\n"
                "%4 = aten::index_select(%3, %2) {dim = 0}: f32[3, 4]\n"
                "output \"y\" %4\n",
                1);
  expect_change("views",
                "input %0 \"x\": f32[2, 3, 4]\n"
                "input %1 \"u\": f32[2, 1, 4]\n"
                "const %2: i64[2, 1, 2] = {1, 2, -2, 0}\n"
                "%3 = td::scatter_nd(%0, %2, %1) {reduce = \"add\"}\n"
                "output \"y\" %3\n",
                "input %0 \"x\": f32[2, 3, 4]\n"
                "input %1 \"u\": f32[2, 1, 4]\n"
                "const %2: i64[2] = {6, 4}\n"
                "const %3: i64[2, 1, 1] = {5, 0}\n"
                "const %4: i64[3] = {2, 3, 4}\n"
                "%5 = aten::view(%0, %2) {zero_copies = false}: f32[6, 4]\n"
                "%6 = td::scatter_nd(%5, %3, %1) {reduce = \"add\"}: f32[6, 4]\n"
                "%7 = aten::view(%6, %4) {zero_copies = false}: f32[2, 3, 4]\n"
                "output \"y\" %7\n",
                1);
  expect_same("views", /* no rows; outside; sizes */
              "input %0 \"x\": f32[12]\n"
              "input %1 \"s\": i64[4]\n"
              "input %2 \"z\": f32[2, 3]\n"
              "input %3 \"u\": f32[1]\n"
              "const %4: i64[4] = {1, 2, 5, 6}\n"
              "const %5: i64[4] = {0, 1, 12, 13}\n"
              "const %6: i64[4] = {2, 3, 0, 1}\n"
              "const %7: i64[1, 2] = {1, 3}\n"
              "%8 = aten::index_select(%0, %4) {dim = 0}: f32[4]\n"
              "%9 = aten::index_select(%0, %5) {dim = 0}: f32[4]\n"
              "%10 = aten::index_select(%1, %6) {dim = 0}: i64[4]\n"
              "%11 = td::scatter_nd(%2, %7, %3) {reduce = \"none\"}: f32[2, 3]\n"
              "output \"a\" %8\noutput \"b\" %9\noutput \"c\" %10\noutput \"d\" %11\n");
}

static void numbers_stay(void **state) {
  (void)state;
  static const char *const selections[] = {"2, 4] = {4, 5, 6, 7, -12, 1, 2, 3", "2, 2, 2] = {2, 3, 0, 1, 4, 5, 10, 11",
                                           "8] = {6, 7, 8, 9, 10, 11, 0, 1", "6] = {6, 7, 8, 3, 4, 5",
                                           "4] = {0, 2, 1, 3"};
  static const char *const tuples[] = {
      "f32[3]\nconst %2: i64[3, 3] = {1, 2, 3, 0, 0, 0, -1, -1, -2", "f32[2, 4]\nconst %2: i64[2, 2] = {1, 2, 1, 1",
      "f32[2, 2, 4]\nconst %2: i64[2, 2, 2] = {1, 2, 0, 1, 1, 2, 0, 0", "f32[0]\nconst %2: i64[0, 3] = {"};
  char text[512];
  for (size_t i = 0; i < sizeof selections / sizeof *selections; i++) {
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[12]\nconst %%1: i64[%s}\n"
             "%%2 = aten::index_select(%%0, %%1) {dim = 0}\noutput \"y\" %%2\n",
             selections[i]);
    expect_same_numbers(text);
  }
  for (size_t i = 0; i < 2 * sizeof tuples / sizeof *tuples; i++) {
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[2, 3, 4]\ninput %%1 \"u\": %s}\n"
             "%%3 = td::scatter_nd(%%0, %%2, %%1) {reduce = \"%s\"}\noutput \"y\" %%3\n",
             tuples[i / 2], i % 2 ? "add" : "none");
    expect_same_numbers(text);
  }
}

/* Queries, keys and values of heads: what is selected from the axis that was moved to the front leaves samples there.
 */
static void samples_stay_in_front(void **state) {
  (void)state;
  expect_change("views",
                "input %0 \"x\": f32[b, 5, 3, 2, 4]\nconst %1: i64[] = {2}\nconst %2: i64[1] = {1}\n"
                "const %3: i64[1] = {2}\nconst %4: i64[1] = {0}\n"
                "%5 = aten::permute(%0) {dims = [2, 0, 3, 1, 4]}\n"
                "%6 = aten::index_select(%5, %1) {dim = 0}\n"
                "%7 = aten::slice(%5, %2, %3, %4)\n%8 = aten::squeeze(%7, %4)\n"
                "%9 = aten::add(%6, %8)\noutput \"y\" %9\n",
                "input %0 \"x\": f32[b, 5, 3, 2, 4]\n"
                "const %1: i64[1] = {2}\n"
                "const %2: i64[1] = {3}\n"
                "const %3: i64[1] = {2}\n"
                "const %4: i64[1] = {1}\n"
                "const %5: i64[1] = {1}\n"
                "const %6: i64[1] = {2}\n"
                "const %7: i64[1] = {2}\n"
                "%8 = aten::slice(%0, %1, %2, %3, %4): f32[b, 5, 1, 2, 4]\n"
                "%9 = aten::squeeze(%8, %3): f32[b, 5, 2, 4]\n"
                "%10 = aten::permute(%9) {dims = [0, 2, 1, 3]}: f32[b, 2, 5, 4]\n"
                "%11 = aten::slice(%0, %5, %6, %7): f32[b, 5, 1, 2, 4]\n"
                "%12 = aten::squeeze(%11, %7): f32[b, 5, 2, 4]\n"
                "%13 = aten::permute(%12) {dims = [0, 2, 1, 3]}: f32[b, 2, 5, 4]\n"
                "%14 = aten::add(%10, %13): f32[b, 2, 5, 4]\n"
                "output \"y\" %14\n",
                2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(permutations_join),
      cmocka_unit_test(what_moves_nothing_is_a_view),
      cmocka_unit_test(views_move_in_front_of_products),
      cmocka_unit_test(views_join),
      cmocka_unit_test(what_no_view_can_say_stays),
      cmocka_unit_test(what_views_can_say_they_say),
      cmocka_unit_test(places_are_told_by_few_numbers),
      cmocka_unit_test(numbers_stay),
      cmocka_unit_test(samples_stay_in_front),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
