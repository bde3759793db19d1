/* Products over named axes: which become products of matrices. */
#include "passes/numbers.h"

static void products_become_matmul(void **state) {
  (void)state;
  expect_change("einsum",
                "input %0 \"a\": f32[2, 3, 4, 5]\n"
                "input %1 \"b\": f32[2, 3, 6, 5]\n"
                "%2 = aten::einsum(%0, %1) {equation = \"B H I D, B H J D -> B H I J\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": f32[2, 3, 4, 5]\n"
                "input %1 \"b\": f32[2, 3, 6, 5]\n"
                "%2 = aten::permute(%1) {dims = [0, 1, 3, 2]}: f32[2, 3, 5, 6]\n"
                "%3 = aten::matmul(%0, %2): f32[2, 3, 4, 6]\n"
                "output \"y\" %3\n",
                1);
}

static void axes_come_in_any_order(void **state) {
  (void)state;
  expect_change("einsum",
                "input %0 \"a\": f32[4, 2, 5]\n"
                "input %1 \"b\": f32[5, 2, 6]\n"
                "%2 = aten::einsum(%0, %1) {equation = \"nbk,kbm->bmn\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": f32[4, 2, 5]\n"
                "input %1 \"b\": f32[5, 2, 6]\n"
                "%2 = aten::permute(%0) {dims = [1, 0, 2]}: f32[2, 4, 5]\n"
                "%3 = aten::permute(%1) {dims = [1, 0, 2]}: f32[2, 5, 6]\n"
                "%4 = aten::matmul(%2, %3): f32[2, 4, 6]\n"
                "%5 = aten::permute(%4) {dims = [0, 2, 1]}: f32[2, 6, 4]\n"
                "output \"y\" %5\n",
                1);
}

static void absent_axes_have_size_one(void **state) {
  (void)state;
  expect_change("einsum",
                "input %0 \"a\": f32[2, 4, 5]\n"
                "input %1 \"b\": f32[2, 5]\n"
                "%2 = aten::einsum(%0, %1) {equation = \"bnd,bd->bn\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": f32[2, 4, 5]\n"
                "input %1 \"b\": f32[2, 5]\n"
                "const %2: i64[1] = {2}\n"
                "const %3: i64[1] = {2}\n"
                "%4 = aten::unsqueeze(%1, %2): f32[2, 5, 1]\n"
                "%5 = aten::matmul(%0, %4): f32[2, 4, 1]\n"
                "%6 = aten::squeeze(%5, %3): f32[2, 4]\n"
                "output \"y\" %6\n",
                1);
}

static void factors_go_in_pairs(void **state) {
  (void)state;
  expect_change("einsum",
                "input %0 \"a\": f32[2, 4, 5]\n"
                "input %1 \"b\": f32[2, 5, 6]\n"
                "input %2 \"c\": f32[2, 4]\n"
                "%3 = aten::einsum(%0, %1, %2) {equation = \"bnd,bde,bn->bne\"}\n"
                "output \"y\" %3\n",
                "input %0 \"a\": f32[2, 4, 5]\n"
                "input %1 \"b\": f32[2, 5, 6]\n"
                "input %2 \"c\": f32[2, 4]\n"
                "const %3: i64[1] = {3}\n"
                "const %4: i64[2] = {2, 3}\n"
                "const %5: i64[1] = {3}\n"
                "%6 = aten::matmul(%0, %1): f32[2, 4, 6]\n"
                "%7 = aten::unsqueeze(%6, %3): f32[2, 4, 6, 1]\n"
                "%8 = aten::unsqueeze(%2, %4): f32[2, 4, 1, 1]\n"
                "%9 = aten::mul(%7, %8): f32[2, 4, 6, 1]\n"
                "%10 = aten::squeeze(%9, %5): f32[2, 4, 6]\n"
                "output \"y\" %10\n",
                1);
}

/* Axes of a constant factor's own become one, whose product is a linear layer's; so do those that are summed. */
static void own_axes_become_one(void **state) {
  (void)state;
  expect_change("einsum",
                "input %0 \"a\": f32[6, 1, 2]\n"
                "const %1 \"w\": f32[2, 3, 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                "%2 = aten::einsum(%0, %1) {equation = \"ibh,hnd->ibnd\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": f32[6, 1, 2]\n"
                "const %1: f32[2, 6] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                "%2 = aten::matmul(%0, %1): f32[6, 1, 6]\n"
                "%3 = aten::unflatten(%2) {dim = -1, sizes = [3, 2]}: f32[6, 1, 3, 2]\n"
                "output \"y\" %3\n",
                1);
  expect_change("einsum",
                "input %0 \"a\": f32[4, 2]\n"
                "const %1 \"w\": f32[2, 2, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                "%2 = aten::einsum(%0, %1) {equation = \"td,ndh->nth\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": f32[4, 2]\n"
                "const %1: f32[2, 6] = {1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12}\n"
                "%2 = aten::matmul(%0, %1): f32[4, 6]\n"
                "%3 = aten::unflatten(%2) {dim = -1, sizes = [2, 3]}: f32[4, 2, 3]\n"
                "%4 = aten::permute(%3) {dims = [1, 0, 2]}: f32[2, 4, 3]\n"
                "output \"y\" %4\n",
                1);
  expect_change("einsum",
                "input %0 \"a\": f32[6, 1, 3, 2]\n"
                "const %1 \"w\": f32[2, 3, 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                "%2 = aten::einsum(%0, %1) {equation = \"ibnd,hnd->ibh\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": f32[6, 1, 3, 2]\n"
                "const %1: i64[3] = {6, 1, 6}\n"
                "const %2: f32[2, 6] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                "%3 = aten::view(%0, %1) {zero_copies = false}: f32[6, 1, 6]\n"
                "%4 = aten::permute(%2) {dims = [1, 0]}: f32[6, 2]\n"
                "%5 = aten::matmul(%3, %4): f32[6, 1, 2]\n"
                "output \"y\" %5\n",
                1);
}

/* The second factor is the same for what stands in front of the first one's matrices; nothing moves for it. */
static void own_axes_stand_in_front(void **state) {
  (void)state;
  expect_change("einsum",
                "input %0 \"a\": f32[1, 4, 12, 16, 32]\n"
                "input %1 \"b\": f32[1, 4, 8, 32]\n"
                "%2 = aten::einsum(%0, %1) {equation = \"bhlqd,bhkd->bhlqk\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": f32[1, 4, 12, 16, 32]\n"
                "input %1 \"b\": f32[1, 4, 8, 32]\n"
                "const %2: i64[1] = {2}\n"
                "%3 = aten::permute(%1) {dims = [0, 1, 3, 2]}: f32[1, 4, 32, 8]\n"
                "%4 = aten::unsqueeze(%3, %2): f32[1, 4, 1, 32, 8]\n"
                "%5 = aten::matmul(%0, %4): f32[1, 4, 12, 16, 8]\n"
                "output \"y\" %5\n",
                1);
  expect_change("einsum",
                "input %0 \"a\": f32[4, 2]\n"
                "input %1 \"b\": f32[3, 2, 5]\n"
                "%2 = aten::einsum(%0, %1) {equation = \"td,ndh->nth\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": f32[4, 2]\n"
                "input %1 \"b\": f32[3, 2, 5]\n"
                "%2 = aten::matmul(%0, %1): f32[3, 4, 5]\n"
                "output \"y\" %2\n",
                1);
}

/* Whole numbers where nothing is summed. */
static void numbers_are_multiplied(void **state) {
  (void)state;
  expect_change("einsum",
                "input %0 \"a\": i64[2, 3]\n"
                "input %1 \"b\": i64[2, 4]\n"
                "%2 = aten::einsum(%0, %1) {equation = \"bq,bk->bqk\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": i64[2, 3]\n"
                "input %1 \"b\": i64[2, 4]\n"
                "const %2: i64[1] = {2}\n"
                "const %3: i64[1] = {1}\n"
                "%4 = aten::unsqueeze(%0, %2): i64[2, 3, 1]\n"
                "%5 = aten::unsqueeze(%1, %3): i64[2, 1, 4]\n"
                "%6 = aten::mul(%4, %5): i64[2, 3, 4]\n"
                "output \"y\" %6\n",
                1);
}

static void numbers_are_the_same(void **state) {
  (void)state;
  static const struct {
    const char *a, *b, *equation;
    bool constant[2];
  } cases[] = {{"3, 1, 4", "4, 2, 3", "ibh,hnd->ibnd", {false, true}},
               {"4, 2, 3", "3, 1, 4", "hnd,ibh->ibnd", {true, false}},
               {"4, 2, 3", "3, 1, 4", "hnd,ibh->nidb", {true, false}},
               {"5, 4", "3, 4, 2", "td,ndh->nth", {false, true}},
               {"5, 4", "3, 4, 2", "td,ndh->nth", {false, false}},
               {"5, 4", "3, 4, 2", "td,ndh->htn", {false, false}},
               {"3, 1, 2, 4", "5, 2, 4", "ibnd,hnd->ibh", {false, true}},
               {"3, 1, 2, 4", "5, 2, 4", "ibnd,hnd->ibh", {false, false}},
               {"3, 1, 2, 4", "4, 5, 2", "ibnd,dhn->hib", {false, true}},
               {"3, 1, 2, 4", "4, 5, 2", "ibnd,dhn->hib", {false, false}},
               {"2, 3, 4", "5, 3, 4", "nkl,mkl->nm", {false, false}},
               {"2, 3, 4", "3, 4", "nkl,kl->n", {false, false}},
               {"3, 4", "3, 4", "kl,kl->", {false, false}},
               {"3, 4", "3, 4, 2, 3", "kl,klab->ab", {false, true}},
               {"7, 3, 2", "7, 4, 5", "sic,sjd->ijcd", {false, false}},
               {"2, 3, 4, 5, 6", "2, 3, 7, 6", "bhlqd,bhkd->bhlqk", {false, false}},
               {"2, 3, 7, 6", "2, 3, 4, 5, 6", "bhkd,bhlqd->bhlqk", {false, false}},
               {"2, 4, 5, 6", "2, 7, 3, 6", "blqd,bkhd->lbkqh", {false, false}},
               {"2, 4, 5, 6", "2, 7, 3, 6", "blqd,bkhd->lbkqh", {false, true}},
               {"3, 4, 2", "2, 5", "bnk,kl->bnl", {true, true}},
               {"2, 3, 4", "2, 4, 5", "...nl,...lm->...nm", {false, false}},
               {"2, 3, 4, 2, 5", "2, 3, 6, 2, 5", "...qhd,...khd->...hqk", {false, false}},
               {"2, 3, 4", "2, 3, 5", "...nd, ...ng -> ...gd", {false, false}},
               {"6, 2, 3, 4", "3, 4, 5", "A...l, ...lm -> m...A", {false, true}},
               {"2, 3", "3, 4", "...ab,...bc->a...c", {false, false}},
               {"3, 0", "0, 2, 4", "kl,lab->kab", {false, false}},
               {"3, 2", "2, 0, 4", "kl,lab->kab", {false, false}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *const dims[] = {cases[i].a, cases[i].b};
    char text[4096];
    int at = 0, inputs = 0;
    for (int f = 0; f < 2; f++) {
      int64_t count = 1;
      if (!cases[i].constant[f]) {
        at += snprintf(text + at, sizeof text - (size_t)at, "input %%%d \"x%d\": f32[%s]\n", f, inputs++, dims[f]);
        continue;
      }
      for (const char *c = dims[f]; *c; c++)
        if (*c >= '0' && *c <= '9') count *= *c - '0';
      at += snprintf(text + at, sizeof text - (size_t)at, "const %%%d: f32[%s] = {0", f, dims[f]);
      for (int64_t k = 1; k < count; k++)
        at += snprintf(text + at, sizeof text - (size_t)at, ", %.2f", (double)(k * 29 % 31) / 20 - 0.7);
      at += snprintf(text + at, sizeof text - (size_t)at, "}\n");
    }
    snprintf(text + at, sizeof text - (size_t)at,
             "%%2 = aten::einsum(%%0, %%1) {equation = \"%s\"}\n"
             "output \"y\" %%2\n",
             cases[i].equation);
    expect_same_numbers(text);
  }
}

/* An open size, of what is summed and of one factor's own, and of several of them. */
static void sizes_may_be_open(void **state) {
  (void)state;
  expect_change("einsum",
                "input %0 \"a\": f32[n, 3, 4]\n"
                "input %1 \"b\": f32[5, 3, 4]\n"
                "%2 = aten::einsum(%0, %1) {equation = \"nkl,mkl->nm\"}\n"
                "output \"y\" %2\n",
                "input %0 \"a\": f32[n, 3, 4]\n"
                "input %1 \"b\": f32[5, 3, 4]\n"
                "const %2: i64[2] = {-1, 12}\n"
                "const %3: i64[2] = {5, 12}\n"
                "%4 = aten::view(%0, %2) {zero_copies = false}: f32[n, 12]\n"
                "%5 = aten::view(%1, %3) {zero_copies = false}: f32[5, 12]\n"
                "%6 = aten::permute(%5) {dims = [1, 0]}: f32[12, 5]\n"
                "%7 = aten::matmul(%4, %6): f32[n, 5]\n"
                "output \"y\" %7\n",
                1);
  expect_same("einsum",
              "input %0 \"a\": f32[n, k, 4]\n"
              "input %1 \"b\": f32[5, k, 4]\n"
              "%2 = aten::einsum(%0, %1) {equation = \"nkl,mkl->nm\"}: f32[n, 5]\n"
              "output \"y\" %2\n");
}

/* An axis of one factor that is summed, a diagonal, sizes that broadcast, sums of whole numbers. */
static void others_stay(void **state) {
  (void)state;
  static const struct {
    const char *dtype, *a, *b, *equation, *y;
  } cases[] = {{"f32", "2, 3, 4", "4, 5", "nkl,lm->nm", "2, 5"},
               {"f32", "3, 3, 4", "4, 5", "nnl,lm->nm", "3, 5"},
               {"f32", "2, 3, 4", "1, 4, 5", "...nl,...lm->...nm", "2, 3, 5"},
               {"f32", "2, 3, 4", "4, 5", "...nl,lm->nm", "3, 5"},
               {"f32", "2, 3, 4", "1, 4, 5", "bnl,blm->bnm", "2, 3, 5"},
               {"i64", "2, 3, 4", "2, 4, 5", "bnl,blm->bnm", "2, 3, 5"},
               {"f32", "2, 0, 4", "5, 0, 4", "nkl,mkl->nm", "2, 5"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"a\": %s[%s]\n"
             "input %%1 \"b\": %s[%s]\n"
             "%%2 = aten::einsum(%%0, %%1) {equation = \"%s\"}: %s[%s]\n"
             "output \"y\" %%2\n",
             cases[i].dtype, cases[i].a, cases[i].dtype, cases[i].b, cases[i].equation, cases[i].dtype, cases[i].y);
    expect_same("einsum", text);
  }
}

/* A sum of what two factors make that broadcast against each other, in both directions; not a dot product of what has
 * the axes of both, nor of what others read. */
static void sums_of_broadcast_products_are_products(void **state) {
  (void)state;
  expect_change("einsum",
                "input %0 \"a\": f32[1, 4, 3, 1]\n"
                "input %1 \"b\": f32[n, 1, 3, 2]\n"
                "%2 = aten::mul(%0, %1)\n"
                "%3 = aten::sum(%2) {dim = [-2], keepdim = true}\n"
                "output \"y\" %3\n",
                "input %0 \"a\": f32[1, 4, 3, 1]\n"
                "input %1 \"b\": f32[n, 1, 3, 2]\n"
                "const %2: i64[2] = {0, 3}\n"
                "const %3: i64[1] = {1}\n"
                "const %4: i64[1] = {2}\n"
                "%5 = aten::squeeze(%0, %2): f32[4, 3]\n"
                "%6 = aten::squeeze(%1, %3): f32[n, 3, 2]\n"
                "%7 = aten::matmul(%5, %6): f32[n, 4, 2]\n"
                "%8 = aten::unsqueeze(%7, %4): f32[n, 4, 1, 2]\n"
                "output \"y\" %8\n",
                1);
  expect_same("einsum",
              "input %0 \"a\": f32[5, 4, 3]\n"
              "input %1 \"b\": f32[3]\n"
              "input %2 \"c\": f32[4, 3, 1]\n"
              "input %3 \"d\": f32[3, 2]\n"
              "%4 = aten::mul(%0, %1): f32[5, 4, 3]\n"
              "%5 = aten::sum(%4) {dim = [2], keepdim = false, noop = false}: f32[5, 4]\n"
              "%6 = aten::mul(%2, %3): f32[4, 3, 2]\n"
              "%7 = aten::sum(%6) {dim = [1], keepdim = false, noop = false}: f32[4, 2]\n"
              "output \"a\" %5\noutput \"b\" %6\noutput \"c\" %7\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_of_broadcast_products_are_products),
                                     cmocka_unit_test(products_become_matmul),
                                     cmocka_unit_test(axes_come_in_any_order),
                                     cmocka_unit_test(absent_axes_have_size_one),
                                     cmocka_unit_test(factors_go_in_pairs),
                                     cmocka_unit_test(own_axes_become_one),
                                     cmocka_unit_test(own_axes_stand_in_front),
                                     cmocka_unit_test(numbers_are_multiplied),
                                     cmocka_unit_test(numbers_are_the_same),
                                     cmocka_unit_test(sizes_may_be_open),
                                     cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
