/* Attention in the spellings of exporters: each becomes one td::attention, and gives the numbers that it gave. */
#include "passes/numbers.h"

/* Queries, keys and values of three heads of four, as a projection gives them; a mask that hides the last key. */
#define TOKENS                                                                                                         \
  "input %0 \"q\": f32[2, 5, 12]\n"                                                                                    \
  "input %1 \"k\": f32[2, 5, 12]\n"                                                                                    \
  "input %2 \"v\": f32[2, 5, 12]\n"                                                                                    \
  "input %3 \"mask\": f32[2, 1, 1, 5]\n"                                                                               \
  "input %4 \"hide\": bool[2, 1, 1, 5]\n"                                                                              \
  "const %5: i64[4] = {2, 5, 3, 4}\n"                                                                                  \
  "const %6: i64[3] = {2, 5, 12}\n"                                                                                    \
  "const %7: f32[] = {0.5}\n"                                                                                          \
  "const %8: f32[1] = {2}\n"                                                                                           \
  "const %9: f32[] = {-1e30}\n"                                                                                        \
  "const %10: f32[] = {0}\n"                                                                                           \
  "const %11: f32[1, 1, 5, 5] = {0, -inf, -inf, -inf, -inf, 0, 0, -inf, -inf, -inf, 0, 0, 0, -inf, -inf, 0, 0, 0, 0, " \
  "-inf, 0, 0, 0, 0, 0}\n"
#define HEADS                                        \
  "%20 = aten::view(%0, %5)\n"                       \
  "%21 = aten::permute(%20) {dims = [0, 2, 1, 3]}\n" \
  "%22 = aten::view(%1, %5)\n"                       \
  "%23 = aten::permute(%22) {dims = [0, 2, 3, 1]}\n" \
  "%24 = aten::view(%2, %5)\n"                       \
  "%25 = aten::permute(%24) {dims = [0, 2, 1, 3]}\n"
/* of probabilities %40 */
#define VALUES                                       \
  "%50 = aten::matmul(%40, %25)\n"                   \
  "%51 = aten::permute(%50) {dims = [0, 2, 1, 3]}\n" \
  "%52 = aten::view(%51, %6)\n"                      \
  "output \"y\" %52\n"

static const char *const spellings[] = {
    /* BERT: scale the scores, add a mask */
    TOKENS HEADS
    "%30 = aten::matmul(%21, %23)\n%31 = aten::mul(%30, %7)\n%32 = aten::add(%31, %3)\n"
    "%40 = aten::_softmax(%32) {dim = -1}\n" VALUES,
    /* divided, the mask in front, added first and so scaled */
    TOKENS HEADS
    "%30 = aten::matmul(%21, %23)\n%31 = aten::add(%3, %30)\n%32 = aten::div(%31, %8)\n"
    "%40 = aten::_softmax(%32) {dim = 3}\n" VALUES,
    /* queries and keys scaled, as in ViT and DistilBERT; no mask */
    TOKENS HEADS
    "%27 = aten::mul(%21, %7)\n%28 = aten::div(%23, %8)\n%30 = aten::matmul(%27, %28)\n"
    "%40 = aten::_softmax(%30) {dim = -1}\n" VALUES,
    /* scaled before they are split into heads; keys transposed in a second step */
    TOKENS
    "%20 = aten::mul(%7, %0)\n%21 = aten::view(%20, %5)\n%22 = aten::permute(%21) {dims = [0, 2, 1, 3]}\n"
    "%23 = aten::view(%1, %5)\n%24 = aten::permute(%23) {dims = [0, 2, 1, 3]}\n"
    "%26 = aten::permute(%24) {dims = [0, 1, 3, 2]}\n"
    "%27 = aten::view(%2, %5)\n%25 = aten::permute(%27) {dims = [0, 2, 1, 3]}\n"
    "%30 = aten::matmul(%22, %26)\n%40 = aten::_softmax(%30) {dim = -1}\n" VALUES,
    /* keys hidden by where, one way and the other */
    TOKENS HEADS
    "%30 = aten::matmul(%21, %23)\n%31 = aten::where(%4, %9, %30)\n"
    "%40 = aten::_softmax(%31) {dim = -1}\n" VALUES,
    TOKENS HEADS
    "%29 = aten::logical_not(%4)\n%30 = aten::matmul(%21, %23)\n%31 = aten::where(%29, %30, %9)\n"
    "%32 = aten::mul(%31, %7)\n%40 = aten::_softmax(%32) {dim = -1}\n" VALUES,
    /* GPT-2: causal by a constant, and padding; T5: a bias, scale 1 */
    TOKENS HEADS
    "%30 = aten::matmul(%21, %23)\n%31 = aten::div(%30, %8)\n%32 = aten::add(%31, %11)\n"
    "%33 = aten::add(%32, %3)\n%40 = aten::_softmax(%33) {dim = -1}\n" VALUES,
    /* a bias of each head out of a table, and windows that a view tells from samples, hidden from each other: Swin */
    TOKENS HEADS
    "const %60: f32[5, 5, 3] = {0, 0, -1, 0, 0.5, 0.5, 0.5, -3, 1, 0, 0.5, 0, -3, -3, 0, 0.5, -1, 1, 0, 2, 0, 0, 0, "
    "-100, 0, -3, 1, -3, 0, -100, 1, 0.5, 0.5, -100, 1, 2, 1, 1, 0.5, -1, 0, -3, -100, 0, 0, -1, 0, 2, -100, -3, "
    "-100, 1, -1, -1, 0.5, -100, -3, 0, 0.5, 1, -3, -3, 0, 2, -100, 2, 0, 0.5, -100, 0, 0, -100, -3, 2, 0.5}\n"
    "const %61: f32[1, 2, 1, 5, 5] = {0, 0.5, 0, -1, -3, 0, 0, -100, 1, 0, 1, -100, -100, 1, -3, -100, 2, 2, 0.5, -1, "
    "-100, 0, -3, -100, 0, -100, -100, 1, -3, 0, 0.5, 2, -100, 1, -100, -3, 0.5, 2, -3, 2, 0, -100, -100, 2, 0.5, 0, "
    "1, 0, -100, 0}\n"
    "const %62: i64[5] = {1, 2, 3, 5, 5}\nconst %63: i64[4] = {2, 3, 5, 5}\nconst %64: i64[1] = {0}\n"
    "%30 = aten::matmul(%21, %23)\n%31 = aten::permute(%60) {dims = [2, 0, 1]}\n%32 = aten::unsqueeze(%31, %64)\n"
    "%33 = aten::add(%30, %32)\n%34 = aten::view(%33, %62)\n%35 = aten::add(%34, %61)\n%36 = aten::view(%35, %63)\n"
    "%40 = aten::_softmax(%36) {dim = -1}\n" VALUES,
    /* one window each of two samples */
    TOKENS HEADS
    "const %61: f32[1, 1, 1, 5, 5] = {0, -100, -1, 0, 0, 0, 0, 0.5, 0, -1, 1, -1, 0, 0, 2, -1, 0, 0, 0, -1, -100, 0, "
    "-1, -1, 0.5}\n"
    "const %62: i64[5] = {2, 1, 3, 5, 5}\nconst %63: i64[4] = {2, 3, 5, 5}\n"
    "%30 = aten::matmul(%21, %23)\n%34 = aten::view(%30, %62)\n%35 = aten::add(%34, %61)\n"
    "%36 = aten::view(%35, %63)\n%37 = aten::add(%36, %3)\n%40 = aten::_softmax(%37) {dim = -1}\n" VALUES,
    /* guarded against rows that see nothing */
    TOKENS HEADS
    "%30 = aten::matmul(%21, %23)\n%31 = aten::add(%30, %3)\n%32 = aten::_softmax(%31) {dim = -1}\n"
    "%33 = aten::isnan(%32)\n%40 = aten::where(%33, %10, %32)\n" VALUES,
    /* one operator, its heads apart or together */
    TOKENS
    "%20 = aten::view(%0, %5)\n%21 = aten::permute(%20) {dims = [0, 2, 1, 3]}\n"
    "%22 = aten::view(%1, %5)\n%23 = aten::permute(%22) {dims = [0, 2, 1, 3]}\n"
    "%24 = aten::view(%2, %5)\n%25 = aten::permute(%24) {dims = [0, 2, 1, 3]}\n%29 = aten::logical_not(%4)\n"
    "%50 = aten::scaled_dot_product_attention(%21, %23, %25, %29)\n"
    "%51 = aten::permute(%50) {dims = [0, 2, 1, 3]}\noutput \"y\" %51\n",
    TOKENS
    "%50 = aten::scaled_dot_product_attention(%0, %1, %2, %3) {heads = 3, kv_heads = 3, is_causal = true, "
    "scale = 0.25}\noutput \"y\" %50\n",
};

/* One product for q, k and v, rows before samples, parts chosen by index: torch's MultiheadAttention. */
static const char joined[] =
    "input %0 \"x\": f32[7, 1, 24]\n"
    "const %1: i64[4] = {7, 1, 3, 8}\n"
    "const %2: i64[1] = {0}\n"
    "const %3: i64[1] = {-2}\n"
    "const %4: i64[] = {0}\n"
    "const %5: i64[] = {1}\n"
    "const %6: i64[] = {-1}\n"
    "const %7: i64[3] = {7, 2, 4}\n"
    "const %8: i64[4] = {1, 2, 7, 4}\n"
    "const %9: i64[2] = {7, 8}\n"
    "const %10: f32[] = {0.70710677}\n"
    "%20 = aten::view(%0, %1)\n"
    "%21 = aten::unsqueeze(%20, %2)\n"
    "%22 = aten::permute(%21) {dims = [3, 1, 2, 0, 4]}\n"
    "%23 = aten::squeeze(%22, %3)\n"
    "%24 = aten::index_select(%23, %4) {dim = 0}\n"
    "%25 = aten::index_select(%23, %5) {dim = 0}\n"
    "%26 = aten::index_select(%23, %6) {dim = 0}\n"
    "%27 = aten::view(%24, %7)\n%28 = aten::permute(%27) {dims = [1, 0, 2]}\n%29 = aten::view(%28, %8)\n"
    "%30 = aten::view(%25, %7)\n%31 = aten::permute(%30) {dims = [1, 0, 2]}\n%32 = aten::view(%31, %8)\n"
    "%33 = aten::view(%26, %7)\n%34 = aten::permute(%33) {dims = [1, 0, 2]}\n%35 = aten::view(%34, %8)\n"
    "%36 = aten::permute(%32) {dims = [0, 1, 3, 2]}\n"
    "%37 = aten::mul(%29, %10)\n%38 = aten::mul(%36, %10)\n"
    "%39 = aten::matmul(%37, %38)\n%40 = aten::_softmax(%39) {dim = -1}\n%41 = aten::matmul(%40, %35)\n"
    "%42 = aten::permute(%41) {dims = [2, 0, 1, 3]}\n%43 = aten::view(%42, %9)\n"
    "output \"y\" %43\n";

/* The heads are the first of three axes. */
static const char three_axes[] =
    "input %0 \"q\": f32[3, 5, 4]\n"
    "input %1 \"k\": f32[3, 4, 6]\n"
    "input %2 \"v\": f32[3, 6, 2]\n"
    "input %3 \"mask\": f32[3, 1, 6]\n"
    "%4 = aten::matmul(%0, %1)\n%5 = aten::add(%4, %3)\n%6 = aten::_softmax(%5) {dim = 2}\n"
    "%7 = aten::matmul(%6, %2)\noutput \"y\" %7\n";

/* Keys and values have one head for all. */
static const char shared_keys[] =
    "input %0 \"q\": f32[2, 3, 5, 4]\n"
    "input %1 \"k\": f32[2, 1, 4, 6]\n"
    "input %2 \"v\": f32[2, 1, 6, 2]\n"
    "%4 = aten::matmul(%0, %1)\n%6 = aten::_softmax(%4) {dim = -1}\n%7 = aten::matmul(%6, %2)\noutput \"y\" %7\n";

/* Scores see windows beside samples where the windows' mask is added, as in Swin; heads have a scale of their own. */
static const char windows[] =
    "input %0 \"q\": f32[6, 3, 5, 4]\n"
    "input %1 \"k\": f32[6, 3, 4, 7]\n"
    "input %2 \"v\": f32[6, 3, 7, 2]\n"
    "input %3 \"bias\": f32[3, 5, 7]\n"
    "input %4 \"mask\": f32[6, 1, 5, 7]\n"
    "input %5 \"heads\": f32[3, 1, 1]\n"
    "const %6: i64[5] = {1, 6, 3, 5, 7}\n"
    "const %7: i64[4] = {6, 3, 5, 7}\n"
    "%10 = aten::matmul(%0, %1)\n%11 = aten::mul(%5, %10)\n%12 = aten::add(%11, %3)\n%13 = aten::view(%12, %6)\n"
    "%14 = aten::add(%13, %4)\n%15 = aten::view(%14, %7)\n%16 = aten::_softmax(%15) {dim = -1}\n"
    "%17 = aten::matmul(%16, %2)\noutput \"y\" %17\n";

/* Windows of two images, hidden from each other alike in both, or by what each image has of its own; `scores` then. */
#define IMAGES(mask, behind, scores)                                                            \
  "input %0 \"q\": f32[6, 3, 5, 4]\n"                                                           \
  "input %1 \"k\": f32[6, 3, 4, 7]\n"                                                           \
  "input %2 \"v\": f32[6, 3, 7, 2]\n"                                                           \
  "input %3 \"bias\": f32[3, 5, 7]\n"                                                           \
  "input %4 \"mask\": f32[" mask                                                                \
  "]\n"                                                                                         \
  "input %5 \"padding\": f32[6, 1, 1, 7]\n"                                                     \
  "const %6: i64[5] = {2, 3, 3, 5, 7}\n"                                                        \
  "const %7: i64[4] = {6, 3, 5, 7}\n"                                                           \
  "%10 = aten::matmul(%0, %1)\n%12 = aten::add(%10, %3)\n%13 = aten::view(%12, %6)\n"           \
  "%14 = aten::add(%13, %4)\n%15 = aten::view(%14, %7)\n" behind "%16 = aten::_softmax(" scores \
  ") {dim = -1}\n"                                                                              \
  "%17 = aten::matmul(%16, %2)\noutput \"y\" %17\n"
static const char images[] = IMAGES("1, 3, 1, 5, 7", "", "%15");
static const char images_of_heads[] = IMAGES("3, 3, 1, 7", "", "%15");
static const char images_apart[] = IMAGES("2, 3, 1, 5, 7", "", "%15");
static const char images_padded[] = IMAGES("1, 3, 1, 5, 7", "%18 = aten::add(%15, %5)\n", "%18");

/* Five axes, one of them of one element: the first, and one behind it; a mask over some of them. */
static const char five_axes[] =
    "input %0 \"q\": f32[1, 2, 3, 5, 4]\n"
    "input %1 \"k\": f32[1, 2, 3, 4, 6]\n"
    "input %2 \"v\": f32[1, 2, 3, 6, 2]\n"
    "input %3 \"mask\": f32[1, 2, 1, 1, 6]\n"
    "%4 = aten::matmul(%0, %1)\n%5 = aten::add(%4, %3)\n%6 = aten::_softmax(%5) {dim = 4}\n"
    "%7 = aten::matmul(%6, %2)\noutput \"y\" %7\n";
static const char five_axes_inside[] =
    "input %0 \"q\": f32[2, 1, 3, 5, 4]\n"
    "input %1 \"k\": f32[2, 1, 3, 4, 6]\n"
    "input %2 \"v\": f32[2, 1, 3, 6, 2]\n"
    "input %3 \"mask\": f32[1, 3, 5, 6]\n"
    "%4 = aten::matmul(%0, %1)\n%5 = aten::add(%4, %3)\n%6 = aten::_softmax(%5) {dim = 4}\n"
    "%7 = aten::matmul(%6, %2)\noutput \"y\" %7\n";

/* Channels in front of tokens: values and result stand turned; the queries are a constant. */
static const char turned[] =
    "input %0 \"k\": f32[2, 4, 3]\n"
    "input %1 \"v\": f32[2, 5, 3]\n"
    "const %2: f32[2, 1, 4] = {1, -2, 3, 0.5, -1, 2, 0.25, 1}\n"
    "%3 = aten::matmul(%2, %0)\n%4 = aten::_softmax(%3) {dim = -1}\n%5 = aten::permute(%4) {dims = [0, 2, 1]}\n"
    "%6 = aten::matmul(%1, %5)\noutput \"y\" %6\n";

static ir_graph *after(base_arena *arena, const char *text, const char *pass) {
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  if (find_pass(pass)->run(graph, &(passes_setting){0}, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  changes = 0; /* nothing is left over */
  assert_int_equal(find_pass("dead")->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
  assert_int_equal(changes, 0);
  return graph;
}

static void expect_words(const char *text, uint32_t attention, uint32_t softmax) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = after(arena, text, "attention");
  base_text printed = {.allocator = &base_libc_allocator};
  assert_int_equal(ir_print(graph, &printed), TD_OK);
  if (count_of(printed.at, "td::attention(") != attention || count_of(printed.at, "aten::_softmax(") != softmax)
    fail_msg("%s", printed.at);
  base_text_free(&printed);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void every_spelling_is_attention(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    expect_words(spellings[i], 1, 0);
    /* By position, keys are hidden before masks come. */
    const bool causal = strstr(spellings[i], "%3) {heads = 3, kv_heads = 3, is_causal = true");
    if (causal) expect_same_finite_numbers(spellings[i]);
    else expect_same_numbers(spellings[i]);
  }
  const char *const others[] = {joined,          three_axes,    shared_keys, windows,          images,
                                images_of_heads, images_padded, five_axes,   five_axes_inside, turned};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    expect_words(others[i], 1, 0);
    expect_same_numbers(others[i]);
  }
  expect_words(images_apart, 0, 1);
  expect_same_numbers(images_apart);
}

/* What where() puts in the place of a score hides one that is no number, whatever is added in front or behind, of one
 * row or of each, in rows that see nothing, too; the outer of two comes first. Keys in more than one block. */
static void hidden_scores(void **state) {
  (void)state;
  static const char *const masked[] = {
      "%9 = aten::where(%3, %8, %6)\n",                                 /* -inf */
      "%9 = aten::where(%3, %8, %7)\n",                                 /* a number for a row that sees nothing */
      "%15 = aten::where(%3, %8, %6)\n%9 = aten::mul(%15, %11)\n",      /* scaled behind */
      "%15 = aten::add(%8, %4)\n%9 = aten::where(%3, %15, %6)\n",       /* a bias of each row in front */
      "%15 = aten::where(%3, %8, %6)\n%9 = aten::add(%15, %4)\n",       /* behind */
      "%15 = aten::where(%3, %8, %7)\n%9 = aten::add(%15, %10)\n",      /* of all rows */
      "%15 = aten::where(%5, %7, %8)\n%9 = aten::where(%3, %15, %6)\n", /* twice */
      "%15 = aten::where(%3, %8, %6)\n%16 = aten::add(%15, %4)\n%9 = aten::where(%5, %7, %16)\n", /* thrice: stays */
      "%15 = aten::add(%8, %10)\n%16 = aten::add(%15, %4)\n%9 = aten::where(%3, %16, %7)\n",
  };
  static const int keys[] = {5, 600};
  for (size_t i = 0; i < 2 * sizeof masked / sizeof *masked; i++) {
    char text[1400];
    const int count = keys[i % 2];
    snprintf(text, sizeof text,
             "input %%0 \"q\": f32[1, 2, 3, 4]\ninput %%1 \"k\": f32[1, 2, %d, 4]\n"
             "input %%2 \"v\": f32[1, 2, %d, 4]\ninput %%3 \"shown\": bool[1, 1, 1, %d]\n"
             "input %%4 \"bias\": f32[2, 3, %d]\ninput %%5 \"hidden\": bool[3, %d]\n"
             "input %%10 \"all\": f32[%d]\nconst %%6: f32[] = {-inf}\nconst %%7: f32[] = {-10000}\n"
             "const %%11: f32[] = {0.5}\n%%14 = aten::permute(%%1) {dims = [0, 1, 3, 2]}\n"
             "%%8 = aten::matmul(%%0, %%14)\n%s%%12 = aten::_softmax(%%9) {dim = -1}\n"
             "%%13 = aten::matmul(%%12, %%2)\noutput \"y\" %%13\n",
             count, count, count, count, count, count, masked[i / 2]);
    const bool stays = i / 2 == 7;
    expect_words(text, !stays, stays);
    expect_same_numbers_on_levels(text);
  }
}

/* Rows that see nothing are no numbers after a plain softmax; zeros where the source says so, as a guard behind the
 * softmax and scaled_dot_product_attention do. Keys in more than one block, the first hidden too. */
static void rows_that_see_nothing(void **state) {
  (void)state;
#define SCORES                                                                   \
  "%14 = aten::permute(%1) {dims = [0, 1, 3, 2]}\n%15 = aten::matmul(%0, %14)\n" \
  "%8 = aten::mul(%15, %6)\n%9 = aten::add(%8, %7)\n%10 = aten::_softmax(%9) {dim = -1}\n"
  static const char *const ends[] = {
      SCORES "%11 = aten::matmul(%10, %2)\noutput \"y\" %11\n",
      SCORES "%12 = aten::isnan(%10)\n%13 = aten::where(%12, %5, %10)\n%11 = aten::matmul(%13, %2)\noutput \"y\" %11\n",
      "%11 = aten::scaled_dot_product_attention(%0, %1, %2, %7)\noutput \"y\" %11\n"};
  static const int keys[] = {5, 600};
  for (size_t i = 0; i < 2 * sizeof ends / sizeof *ends; i++) {
    char text[1400];
    const int count = keys[i % 2];
    snprintf(text, sizeof text,
             "input %%0 \"q\": f32[1, 2, 3, 4]\ninput %%1 \"k\": f32[1, 2, %d, 4]\n"
             "input %%2 \"v\": f32[1, 2, %d, 4]\ninput %%3 \"m\": f32[1, 1, 3, 1]\n"
             "const %%4: i64[4] = {1, 1, 3, %d}\nconst %%5: f32[] = {0}\nconst %%6: f32[] = {0.5}\n"
             "%%7 = aten::expand(%%3, %%4)\n%s",
             count, count, count, ends[i / 2]);
    expect_words(text, 1, 0);
    expect_same_numbers(text);
  }
}

/* Heads are split by views alone, and nothing is turned: no step but attention is left. */
static void transpositions_go(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = after(arena, spellings[0], "attention");
  uint32_t changes = 0;
  td_error err;
  assert_int_equal(find_pass("views")->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
  assert_int_equal(find_pass("dead")->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
  base_text printed = {.allocator = &base_libc_allocator};
  assert_int_equal(ir_print(graph, &printed), TD_OK);
  const char *steps = strstr(printed.at, "%6 = ");
  assert_non_null(steps);
  assert_string_equal(steps,
                      "%6 = aten::unflatten(%0) {dim = 2, sizes = [3, 4]}: f32[2, 5, 3, 4]\n"
                      "%7 = aten::unflatten(%1) {dim = 2, sizes = [3, 4]}: f32[2, 5, 3, 4]\n"
                      "%8 = aten::unflatten(%2) {dim = 2, sizes = [3, 4]}: f32[2, 5, 3, 4]\n"
                      "%9 = td::attention(%6, %7, %8, %3) {scale = 0.5, causal = false, safe = 0, replaces = 0, pairs "
                      "= false, left = -1, softcap = 0}: "
                      "f32[2, 5, 3, 4]\n"
                      "%10 = aten::view(%9, %5) {zero_copies = false}: f32[2, 5, 12]\n"
                      "output \"y\" %10\n");
  base_text_free(&printed);
  ir_graph_free(graph);
  base_arena_free(arena);
}

/* Open sizes are as good as numbers where heads are split by what is known. */
static void open_sizes(void **state) {
  (void)state;
  expect_words(
      "input %0 \"x\": f32[batch, rows, 12]\n"
      "const %1: i64[4] = {0, 0, 3, 4}\n"
      "const %2: f32[] = {2}\n"
      "%3 = aten::view(%0, %1) {zero_copies = true}\n"
      "%4 = aten::permute(%3) {dims = [0, 2, 1, 3]}\n"
      "%5 = aten::permute(%3) {dims = [0, 2, 3, 1]}\n"
      "%6 = aten::matmul(%4, %5)\n%7 = aten::div(%6, %2)\n%8 = aten::_softmax(%7) {dim = -1}\n"
      "%9 = aten::matmul(%8, %4)\noutput \"y\" %9\n",
      1, 0);
}

/* Probabilities that somebody else wants, scores that are no product, another axis, other types. */
static void other_products_stay(void **state) {
  (void)state;
  static const char *const texts[] = {
      "%3 = aten::matmul(%0, %1)\n%4 = aten::_softmax(%3) {dim = -1}\n%5 = aten::matmul(%4, %2)\n"
      "output \"y\" %5\noutput \"p\" %4\n",
      "%3 = aten::matmul(%0, %1)\n%4 = aten::_softmax(%3) {dim = 1}\n%5 = aten::matmul(%4, %2)\noutput \"y\" %5\n",
      "%3 = aten::mul(%0, %0)\n%4 = aten::_softmax(%3) {dim = -1}\n%5 = aten::matmul(%4, %1)\noutput \"y\" %5\n",
      "%3 = aten::matmul(%0, %1)\n%4 = aten::exp(%3)\n%6 = aten::_softmax(%4) {dim = -1}\n"
      "%5 = aten::matmul(%6, %2)\noutput \"y\" %5\n",
      /* a mask in front of what scales rows; turned probabilities that somebody else wants */
      "%3 = aten::matmul(%0, %1)\n%4 = aten::add(%3, %2)\n%7 = aten::mul(%4, %8)\n"
      "%6 = aten::_softmax(%7) {dim = -1}\n%5 = aten::matmul(%6, %2)\noutput \"y\" %5\n",
      "%3 = aten::matmul(%0, %1)\n%4 = aten::_softmax(%3) {dim = -1}\n"
      "%6 = aten::permute(%4) {dims = [0, 1, 3, 2]}\n%5 = aten::matmul(%2, %6)\noutput \"y\" %5\n"
      "output \"p\" %6\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "input %%0 \"q\": f32[1, 2, 4, 4]\ninput %%1 \"k\": f32[1, 2, 4, 4]\ninput %%2 \"v\": f32[1, 2, 4, 4]\n"
             "input %%8 \"rows\": f32[2, 4, 1]\n%s",
             texts[i]);
    expect_words(text, 0, 1);
  }
}

/* What only repeats a row says so with a stride: a mask for padding and a constant that hides nothing. */
static void repeated_masks_are_views(void **state) {
  (void)state;
  expect_change("attention",
                "input %0 \"m\": bool[1, 1, 1, 2]\n"
                "const %1: bool[2, 2] = {1, 1, 1, 1}\n"
                "const %2: f32[] = {0}\n"
                "const %3: f32[] = {-inf}\n"
                "%4 = aten::logical_and(%1, %0)\n"
                "%5 = aten::where(%4, %2, %3)\n"
                "output \"y\" %5\n",
                "input %0 \"m\": bool[1, 1, 1, 2]\n"
                "const %1: f32[] = {0}\n"
                "const %2: f32[] = {-inf}\n"
                "const %3: i64[4] = {1, 1, 2, 2}\n"
                "%4 = aten::where(%0, %1, %2): f32[1, 1, 1, 2]\n"
                "%5 = aten::expand(%4, %3): f32[1, 1, 2, 2]\n"
                "output \"y\" %5\n",
                2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_spelling_is_attention),
      cmocka_unit_test(hidden_scores),
      cmocka_unit_test(rows_that_see_nothing),
      cmocka_unit_test(transpositions_go),
      cmocka_unit_test(open_sizes),
      cmocka_unit_test(other_products_stay),
      cmocka_unit_test(repeated_masks_are_views),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
