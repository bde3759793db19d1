/* Attention with a cache of keys and values becomes steps that have kernels. */
#include "passes/numbers.h"

#define INPUTS                        \
  "input %0 \"q\": f32[b, s, 32]\n"   \
  "input %1 \"k\": f32[b, s, 16]\n"   \
  "input %2 \"v\": f32[b, s, 16]\n"   \
  "input %3 \"K\": f32[b, 2, p, 8]\n" \
  "input %4 \"V\": f32[b, 2, p, 8]\n" \
  "input %5 \"last\": i32[b]\n"       \
  "input %6 \"mask\": f32[b, t]\n"    \
  "input %7 \"angles\": f32[20, 4]\n" \
  "const %8: i64[] = {1}\n"

static void becomes_rows_and_attention(void **state) {
  (void)state;
  expect_change(
      "group_query",
      INPUTS
      "%9 = td::shape(%6)\n"
      "%10 = aten::index_select(%9, %8)\n"
      "%11, %12, %13 = td::group_query_attention(%0, %1, %2, %3, %4, %5, %10, %7, %7) {heads = 4, kv_heads = 2, "
      "rotary = true, window = 3}\n"
      "output \"y\" %11\n"
      "output \"k2\" %12\n"
      "output \"v2\" %13\n",
      INPUTS
      "const %9: i64[3] = {0, 0, 32}\n"
      "%10 = td::shape(%6) {start = 0, end = 9223372036854775807}: i64[2]\n"
      "%11 = aten::index_select(%10, %8) {dim = 0}: i64[]\n"
      "%12 = td::cache_rows(%1, %11, %5, %3, %7, %7, -) {heads = 2, interleaved = false}: f32[b, 2, max(p, t), 8]\n"
      "%13 = td::cache_rows(%2, %11, %5, %4) {heads = 2, interleaved = false}: f32[b, 2, max(p, t), 8]\n"
      "%14 = td::rotate_rows(%0, %5, %7, %7, -) {heads = 4, interleaved = false}: f32[b, s, 32]\n"
      "%15 = aten::unflatten(%14) {dim = 2, sizes = [4, 8]}: f32[b, s, 4, 8]\n"
      "%16 = aten::permute(%12) {dims = [0, 2, 1, 3]}: f32[b, max(p, t), 2, 8]\n"
      "%17 = aten::permute(%13) {dims = [0, 2, 1, 3]}: f32[b, max(p, t), 2, 8]\n"
      "%18 = td::cached_attention(%15, %16, %17, -, -, %5) {scale = 0.35355339059327373, causal = true, safe = 1, "
      "replaces = 0, pairs = false, left = 2, softcap = 0}: f32[b, s, 4, 8]\n"
      "%19 = aten::view(%18, %9) {zero_copies = true}: f32[b, s, 32]\n"
      "output \"y\" %19\n"
      "output \"k2\" %12\n"
      "output \"v2\" %13\n",
      1);
}

/* Packed, without rotation or a cache; results that nobody wants. */
static void takes_slices_of_what_is_packed(void **state) {
  (void)state;
  expect_change("group_query",
                "input %0 \"qkv\": f32[2, 3, 64]\n"
                "input %1 \"last\": i32[2]\n"
                "const %2: i64[] = {3}\n"
                "%3, %4, %5 = td::group_query_attention(%0, -, -, -, -, %1, %2) {heads = 4, kv_heads = 2, scale = "
                "0.25}\n"
                "output \"y\" %3\n",
                "input %0 \"qkv\": f32[2, 3, 64]\n"
                "input %1 \"last\": i32[2]\n"
                "const %2: i64[1] = {0}\n"
                "const %3: i64[1] = {32}\n"
                "const %4: i64[1] = {2}\n"
                "const %5: i64[1] = {32}\n"
                "const %6: i64[1] = {48}\n"
                "const %7: i64[1] = {2}\n"
                "const %8: i64[1] = {48}\n"
                "const %9: i64[1] = {64}\n"
                "const %10: i64[1] = {2}\n"
                "const %11: i64[] = {3}\n"
                "const %12: i64[3] = {0, 0, 32}\n"
                "%13 = aten::slice(%0, %2, %3, %4): f32[2, 3, 32]\n"
                "%14 = aten::slice(%0, %5, %6, %7): f32[2, 3, 16]\n"
                "%15 = aten::slice(%0, %8, %9, %10): f32[2, 3, 16]\n"
                "%16 = td::cache_rows(%14, %11, %1, -) {heads = 2, interleaved = false}: f32[2, 2, 3, 8]\n"
                "%17 = td::cache_rows(%15, %11, %1, -) {heads = 2, interleaved = false}: f32[2, 2, 3, 8]\n"
                "%18 = aten::unflatten(%13) {dim = 2, sizes = [4, 8]}: f32[2, 3, 4, 8]\n"
                "%19 = aten::permute(%16) {dims = [0, 2, 1, 3]}: f32[2, 3, 2, 8]\n"
                "%20 = aten::permute(%17) {dims = [0, 2, 1, 3]}: f32[2, 3, 2, 8]\n"
                "%21 = td::cached_attention(%18, %19, %20, -, -, %1) {scale = 0.25, causal = true, safe = 1, "
                "replaces = 0, pairs = false, left = -1, softcap = 0}: f32[2, 3, 4, 8]\n"
                "%22 = aten::view(%21, %12) {zero_copies = true}: f32[2, 3, 32]\n"
                "output \"y\" %22\n",
                1);
}

/* Half precision is cast, and the results back; a cache of its own. */
static void widens_halves(void **state) {
  (void)state;
  expect_change("group_query",
                "input %0 \"q\": f16[2, 3, 8]\n"
                "input %1 \"k\": f16[2, 3, 8]\n"
                "input %2 \"v\": f16[2, 3, 8]\n"
                "input %3 \"last\": i64[2]\n"
                "const %4: i64[] = {3}\n"
                "%5, %6, %7 = td::group_query_attention(%0, %1, %2, -, -, %3, %4) {scale = 0.25}\n"
                "output \"y\" %5\n"
                "output \"k2\" %6\n",
                "input %0 \"q\": f16[2, 3, 8]\n"
                "input %1 \"k\": f16[2, 3, 8]\n"
                "input %2 \"v\": f16[2, 3, 8]\n"
                "input %3 \"last\": i64[2]\n"
                "const %4: i64[] = {3}\n"
                "const %5: i64[3] = {0, 0, 8}\n"
                "%6 = aten::_to_copy(%0) {dtype = f32, saturate = true, "
                "round_mode = \"up\"}: f32[2, 3, 8]\n"
                "%7 = aten::_to_copy(%1) {dtype = f32, saturate = true, "
                "round_mode = \"up\"}: f32[2, 3, 8]\n"
                "%8 = aten::_to_copy(%2) {dtype = f32, saturate = true, "
                "round_mode = \"up\"}: f32[2, 3, 8]\n"
                "%9 = td::cache_rows(%7, %4, %3, -) {heads = 1, interleaved = false}: f32[2, 1, 3, 8]\n"
                "%10 = td::cache_rows(%8, %4, %3, -) {heads = 1, interleaved = false}: f32[2, 1, 3, 8]\n"
                "%11 = aten::unflatten(%6) {dim = 2, sizes = [1, 8]}: f32[2, 3, 1, 8]\n"
                "%12 = aten::permute(%9) {dims = [0, 2, 1, 3]}: f32[2, 3, 1, 8]\n"
                "%13 = aten::permute(%10) {dims = [0, 2, 1, 3]}: f32[2, 3, 1, 8]\n"
                "%14 = td::cached_attention(%11, %12, %13, -, -, %3) {scale = 0.25, causal = true, safe = 1, replaces "
                "= 0, pairs = false, left = -1, softcap = 0}: f32[2, 3, 1, 8]\n"
                "%15 = aten::view(%14, %5) {zero_copies = true}: f32[2, 3, 8]\n"
                "%16 = aten::_to_copy(%9) {dtype = f16, saturate = true, round_mode = \"up\"}: f16[2, 1, 3, 8]\n"
                "%17 = aten::_to_copy(%10) {dtype = f16, saturate = true, round_mode = \"up\"}: f16[2, 1, 3, 8]\n"
                "%18 = aten::_to_copy(%15) {dtype = f16, saturate = true, round_mode = \"up\"}: f16[2, 3, 8]\n"
                "output \"y\" %18\n"
                "output \"k2\" %16\n",
                1);
}

/* Sinks are an operand, zeros where the softmax is smooth; so is what caps the scores. */
static void sinks_and_caps(void **state) {
  (void)state;
  expect_change("group_query",
                "input %0 \"q\": f32[2, 3, 8]\n"
                "input %1 \"k\": f32[2, 3, 8]\n"
                "input %2 \"v\": f32[2, 3, 8]\n"
                "input %3 \"last\": i64[2]\n"
                "input %4 \"sinks\": f32[1]\n"
                "const %5: i64[] = {3}\n"
                "%6, %7, %8 = td::group_query_attention(%0, %1, %2, -, -, %3, %5, -, -, -, -, %4) {scale = 0.25, "
                "softcap = 3}\n"
                "output \"y\" %6\n",
                "input %0 \"q\": f32[2, 3, 8]\n"
                "input %1 \"k\": f32[2, 3, 8]\n"
                "input %2 \"v\": f32[2, 3, 8]\n"
                "input %3 \"last\": i64[2]\n"
                "input %4 \"sinks\": f32[1]\n"
                "const %5: i64[] = {3}\n"
                "const %6: i64[3] = {0, 0, 8}\n"
                "%7 = td::cache_rows(%1, %5, %3, -) {heads = 1, interleaved = false}: f32[2, 1, 3, 8]\n"
                "%8 = td::cache_rows(%2, %5, %3, -) {heads = 1, interleaved = false}: f32[2, 1, 3, 8]\n"
                "%9 = aten::unflatten(%0) {dim = 2, sizes = [1, 8]}: f32[2, 3, 1, 8]\n"
                "%10 = aten::permute(%7) {dims = [0, 2, 1, 3]}: f32[2, 3, 1, 8]\n"
                "%11 = aten::permute(%8) {dims = [0, 2, 1, 3]}: f32[2, 3, 1, 8]\n"
                "%12 = td::cached_attention(%9, %10, %11, -, -, %3, %4) {scale = 0.25, causal = true, safe = 1, "
                "replaces = 0, pairs = false, left = -1, softcap = 3}: f32[2, 3, 1, 8]\n"
                "%13 = aten::view(%12, %6) {zero_copies = true}: f32[2, 3, 8]\n"
                "output \"y\" %13\n",
                1);
  expect_change("group_query",
                "input %0 \"q\": f32[2, 3, 8]\n"
                "input %1 \"k\": f32[2, 3, 8]\n"
                "input %2 \"v\": f32[2, 3, 8]\n"
                "input %3 \"last\": i64[2]\n"
                "const %4: i64[] = {3}\n"
                "%5, %6, %7 = td::group_query_attention(%0, %1, %2, -, -, %3, %4) {scale = 0.25, smooth = true}\n"
                "output \"y\" %5\n",
                "input %0 \"q\": f32[2, 3, 8]\n"
                "input %1 \"k\": f32[2, 3, 8]\n"
                "input %2 \"v\": f32[2, 3, 8]\n"
                "input %3 \"last\": i64[2]\n"
                "const %4: i64[] = {3}\n"
                "const %5: i64[1] = {1}\n"
                "const %6: f32[] = {0}\n"
                "const %7: i64[3] = {0, 0, 8}\n"
                "%8 = td::cache_rows(%1, %4, %3, -) {heads = 1, interleaved = false}: f32[2, 1, 3, 8]\n"
                "%9 = td::cache_rows(%2, %4, %3, -) {heads = 1, interleaved = false}: f32[2, 1, 3, 8]\n"
                "%10 = aten::full(%5, %6): f32[1]\n"
                "%11 = aten::unflatten(%0) {dim = 2, sizes = [1, 8]}: f32[2, 3, 1, 8]\n"
                "%12 = aten::permute(%8) {dims = [0, 2, 1, 3]}: f32[2, 3, 1, 8]\n"
                "%13 = aten::permute(%9) {dims = [0, 2, 1, 3]}: f32[2, 3, 1, 8]\n"
                "%14 = td::cached_attention(%11, %12, %13, -, -, %3, %10) {scale = 0.25, causal = true, safe = 1, "
                "replaces = 0, pairs = false, left = -1, softcap = 0}: f32[2, 3, 1, 8]\n"
                "%15 = aten::view(%14, %7) {zero_copies = true}: f32[2, 3, 8]\n"
                "output \"y\" %15\n",
                1);
}

/* Scores with a bias. */
static void others_stay(void **state) {
  (void)state;
  expect_same("group_query",
              "input %0 \"q\": f32[2, 3, 32]\n"
              "input %1 \"k\": f32[2, 3, 16]\n"
              "input %2 \"v\": f32[2, 3, 16]\n"
              "input %3 \"K\": f32[2, 2, 5, 8]\n"
              "input %4 \"V\": f32[2, 2, 5, 8]\n"
              "input %5 \"last\": i32[2]\n"
              "input %6 \"bias\": f32[1, 4, 3, 5]\n"
              "const %7: i64[] = {3}\n"
              "%8, %9, %10 = td::group_query_attention(%0, %1, %2, %3, %4, %5, %7, -, -, -, %6) {heads = 4, kv_heads = "
              "2, scale = 0, softcap = 0, rotary = false, interleaved = false, window = -1, smooth = false}: "
              "f32[2, 3, 32], f32[2, 2, 5, 8], f32[2, 2, 5, 8]\n"
              "output \"y\" %8\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(becomes_rows_and_attention),
                                     cmocka_unit_test(takes_slices_of_what_is_packed), cmocka_unit_test(widens_halves),
                                     cmocka_unit_test(sinks_and_caps), cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
