/* Products over named axes: which become products of matrices. */
#include "passes/change.h"

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

/* Two summed axes, an axis of one factor that is summed, a diagonal, an ellipsis, sizes that broadcast. */
static void others_stay(void **state) {
  (void)state;
  static const struct {
    const char *a, *b, *equation, *y;
  } cases[] = {{"2, 3, 4", "5, 3, 4", "nkl,mkl->nm", "2, 5"},
               {"2, 3, 4", "4, 5", "nkl,lm->nm", "2, 5"},
               {"3, 3, 4", "4, 5", "nnl,lm->nm", "3, 5"},
               {"2, 3, 4", "2, 4, 5", "...nl,...lm->...nm", "2, 3, 5"},
               {"2, 3, 4", "1, 4, 5", "bnl,blm->bnm", "2, 3, 5"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"a\": f32[%s]\n"
             "input %%1 \"b\": f32[%s]\n"
             "%%2 = aten::einsum(%%0, %%1) {equation = \"%s\"}: f32[%s]\n"
             "output \"y\" %%2\n",
             cases[i].a, cases[i].b, cases[i].equation, cases[i].y);
    expect_same("einsum", text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_become_matmul), cmocka_unit_test(axes_come_in_any_order),
                                     cmocka_unit_test(absent_axes_have_size_one), cmocka_unit_test(factors_go_in_pairs),
                                     cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
