/* Images with channels last: what the permutations pass, where they meet and go, and where they stay. */
#include "passes/numbers.h"

/* Between two convolutions nothing is permuted; pools, pairs, joins and activations follow. */
static void a_network_is_permuted_at_its_ends(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 5, 4, 4]\n"
                "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                "const %2: f32[2, 2, 1, 1] = {1, 2, 3, 4}\n"
                "%3 = aten::convolution(%0, %1)\n"
                "%4 = aten::relu(%3)\n"
                "%5 = td::max_pool(%4) {kernel_size = [2, 2], stride = [2, 2]}\n"
                "%6 = aten::convolution(%5, %2)\n"
                "%7 = aten::add(%6, %5)\n"
                "%8 = aten::cat(%7, %6) {dim = 1}\n"
                "output \"y\" %8\n",
                "input %0 \"x\": f32[1, 5, 4, 4]\n"
                "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                "const %2: f32[2, 2, 1, 1] = {1, 2, 3, 4}\n"
                "%3 = aten::permute(%0) {dims = [0, 2, 3, 1]}: f32[1, 4, 4, 5]\n"
                "%4 = td::conv(%3, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 2, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 2]\n"
                "%5 = aten::relu(%4): f32[1, 4, 4, 2]\n"
                "%6 = td::max_pool(%5) {stride = [2, 2], padding = [], dilation = [], auto_pad = \"\", kernel_size = "
                "[2, 2], ceil_mode = false, column_major_indices = false, channels_last = true}: f32[1, 2, 2, 2]\n"
                "%7 = td::conv(%6, %2) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 2, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 2, 2, 2]\n"
                "%8 = aten::add(%7, %6): f32[1, 2, 2, 2]\n"
                "%9 = aten::cat(%8, %7) {dim = 3}: f32[1, 2, 2, 4]\n"
                "%10 = aten::permute(%9) {dims = [0, 3, 1, 2]}: f32[1, 4, 2, 2]\n"
                "output \"y\" %10\n",
                6);
}

/* A picture whose colours the model is given last is planes to its first convolution, through what scales it; other
 * images stay as they lie, and so does one that a convolution has made. */
static void pictures_become_planes(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 4, 4, 3]\n"
                "input %1 \"z\": f32[1, 4, 4, 5]\n"
                "const %2: f32[3, 3, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
                "const %3: f32[1, 5, 1, 1] = {1, 2, 3, 4, 5}\n"
                "const %4: f32[] = {2}\n"
                "%5 = aten::mul(%0, %4)\n"
                "%6 = aten::permute(%5) {dims = [0, 3, 1, 2]}\n"
                "%7 = aten::convolution(%6, %2)\n"
                "%8 = aten::convolution(%7, %2)\n"
                "%9 = aten::permute(%1) {dims = [0, 3, 1, 2]}\n"
                "%10 = aten::convolution(%9, %3)\n"
                "output \"a\" %8\n"
                "output \"b\" %10\n",
                "input %0 \"x\": f32[1, 4, 4, 3]\n"
                "input %1 \"z\": f32[1, 4, 4, 5]\n"
                "const %2: f32[] = {2}\n"
                "const %3: f32[3, 3, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
                "const %4: f32[1, 5, 1, 1] = {1, 2, 3, 4, 5}\n"
                "%5 = aten::mul(%0, %2): f32[1, 4, 4, 3]\n"
                "%6 = aten::permute(%5) {dims = [0, 3, 1, 2]}: f32[1, 3, 4, 4]\n"
                "%7 = td::conv(%6, %3) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 3, panel = 0, channels_first = true, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 3]\n"
                "%8 = td::conv(%7, %3) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 3, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 3]\n"
                "%9 = aten::permute(%8) {dims = [0, 3, 1, 2]}: f32[1, 3, 4, 4]\n"
                "%10 = td::conv(%1, %4) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 1, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 1]\n"
                "%11 = aten::permute(%10) {dims = [0, 3, 1, 2]}: f32[1, 1, 4, 4]\n"
                "output \"a\" %9\n"
                "output \"b\" %11\n",
                3);
}

/* One channel lies the same in either order, whoever makes it. */
static void one_channel_is_a_plane(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 5, 4, 4]\n"
                "const %1: f32[1, 5, 1, 1] = {1, 2, 3, 4, 5}\n"
                "const %2: f32[2, 1, 1, 1] = {6, 7}\n"
                "%3 = aten::convolution(%0, %1)\n"
                "%4 = aten::convolution(%3, %2)\n"
                "output \"y\" %4\n",
                "input %0 \"x\": f32[1, 5, 4, 4]\n"
                "const %1: f32[1, 5, 1, 1] = {1, 2, 3, 4, 5}\n"
                "const %2: f32[2, 1, 1, 1] = {6, 7}\n"
                "%3 = aten::permute(%0) {dims = [0, 2, 3, 1]}: f32[1, 4, 4, 5]\n"
                "%4 = td::conv(%3, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 1, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 1]\n"
                "%5 = aten::permute(%4) {dims = [0, 3, 1, 2]}: f32[1, 1, 4, 4]\n"
                "%6 = td::conv(%5, %2) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 2, panel = 0, channels_first = true, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 2]\n"
                "%7 = aten::permute(%6) {dims = [0, 3, 1, 2]}: f32[1, 2, 4, 4]\n"
                "output \"y\" %7\n",
                2);
}

#define SHUFFLE(dims, view, order, back)                                                           \
  "input %0 \"x\": f32[" dims                                                                      \
  "]\n"                                                                                            \
  "const %1: f32[4, 4, 1, 1] = {.1, .2, .3, .4, .5, .6, .7, .8, .9, .1, .2, .3, .4, .5, .6, .7}\n" \
  "const %2: i64[5] = {" view                                                                      \
  "}\n"                                                                                            \
  "const %3: i64[4] = {" back                                                                      \
  "}\n"                                                                                            \
  "%4 = aten::convolution(%0, %1)\n"                                                               \
  "%5 = aten::view(%4, %2) {zero_copies = true}\n"                                                 \
  "%6 = aten::permute(%5) {dims = [" order                                                         \
  "]}\n"                                                                                           \
  "%7 = aten::view(%6, %3) {zero_copies = true}\n"                                                 \
  "%8 = aten::convolution(%7, %1)\n"                                                               \
  "output \"y\" %8\n"

static uint32_t permutations_of(const char *text) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  base_text printed = {.allocator = &base_libc_allocator};
  td_error err;
  uint32_t changes = 0;
  assert_int_equal(find_pass("channels_last")->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
  assert_int_equal(find_pass("dead")->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
  if (ir_verify(graph, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(ir_print(graph, &printed), TD_OK);
  const uint32_t count = count_of(printed.at, "aten::permute");
  base_text_free(&printed);
  ir_graph_free(graph);
  base_arena_free(arena);
  return count;
}

/* Where channels_last is disabled each convolution and pool stands between permutations of its own; else there is
 * nothing to do. */
static void layouts_can_be_compared(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[1, 5, 4, 4]\n"
      "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
      "%2 = aten::convolution(%0, %1)\n"
      "%3 = aten::relu(%2)\n"
      "%4 = td::max_pool(%3) {kernel_size = [2, 2], stride = [2, 2]}\n"
      "output \"y\" %4\n";
  static const char *const disabled[] = {NULL, "fuse", "fuse,channels_last"};
  for (size_t i = 0; i < sizeof disabled / sizeof *disabled; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
    base_text printed = {.allocator = &base_libc_allocator};
    td_error err;
    uint32_t changes = 0;
    const passes_setting setting = {.disabled = disabled[i]};
    assert_int_equal(find_pass("windows")->run(graph, &setting, &changes, &err), TD_OK);
    if (ir_verify(graph, &err) != TD_OK) fail_msg("%s", err.text);
    assert_int_equal(ir_print(graph, &printed), TD_OK);
    assert_int_equal(changes, i == 2 ? 2 : 0);
    assert_int_equal(count_of(printed.at, "td::conv"), i == 2);
    assert_int_equal(count_of(printed.at, "aten::permute"), i == 2 ? 4 : 0);
    base_text_free(&printed);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* Between two convolutions a shuffle turns the groups alone; other turns bring the channels back to the front. */
static void channels_are_shuffled_where_they_are(void **state) {
  (void)state;
  static const char *const shuffles[] = {
      SHUFFLE("3, 4, 2, 5", "3, 2, 2, 2, 5", "0, 2, 1, 3, 4", "3, 4, 2, 5"),
      SHUFFLE("n, 4, 2, 5", "0, 2, 2, 2, 5", "0, 2, 1, 3, 4", "0, 4, 2, 5"),
      SHUFFLE("3, 4, 2, 5", "3, 4, 1, 2, 5", "0, 2, 1, 3, 4", "3, 4, 2, 5"),
  };
  static const char *const others[] = {
      SHUFFLE("3, 4, 2, 2", "3, 2, 2, 2, 2", "0, 1, 2, 4, 3", "3, 4, 2, 2"),
      SHUFFLE("3, 4, 2, 2", "3, 2, 2, 2, 2", "0, 2, 1, 4, 3", "3, 4, 2, 2"),
      SHUFFLE("3, 4, 2, 3", "3, 4, 2, 1, 3", "0, 2, 1, 3, 4", "3, 4, 2, 3"),
      SHUFFLE("4, 4, 2, 3", "2, 2, 4, 2, 3", "1, 0, 2, 3, 4", "4, 4, 2, 3"),
  };
  for (size_t i = 0; i < sizeof shuffles / sizeof *shuffles; i++) {
    assert_int_equal(permutations_of(shuffles[i]), 2);
    if (!strstr(shuffles[i], "[n")) expect_same_numbers(shuffles[i]);
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    assert_int_equal(permutations_of(others[i]), 3);
    expect_same_numbers(others[i]);
  }
}

/* An enlarged image that leaves the graph is made as it leaves; one that goes on stays with channels last. */
static void what_grows_at_the_end_is_permuted_before(void **state) {
  (void)state;
  expect_change(
      "channels_last",
      "input %0 \"x\": f32[1, 5, 4, 4]\n"
      "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
      "const %2: f32[4] = {1, 1, 2, 2}\n"
      "%3 = aten::convolution(%0, %1)\n"
      "%4 = td::resize(%3, -, %2)\n"
      "%5 = td::resize(%4, -, %2)\n"
      "output \"y\" %5\n",
      "input %0 \"x\": f32[1, 5, 4, 4]\n"
      "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
      "const %2: f32[4] = {1, 1, 2, 2}\n"
      "%3 = aten::permute(%0) {dims = [0, 2, 3, 1]}: f32[1, 4, 4, 5]\n"
      "%4 = td::conv(%3, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
      "groups = 1, channels = 2, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, "
      "act_late = false, in_front = false}: f32[1, 4, 4, 2]\n"
      "%5 = td::resize(%4, -, %2) {mode = \"nearest\", coordinates = \"half_pixel\", nearest = "
      "\"round_prefer_floor\", cubic_a = -0.75, exclude_outside = false, extrapolation = 0, antialias = false, "
      "policy = \"stretch\", axes = [0, 3, 1, 2]}: f32[1, 8, 8, 2]\n"
      "%6 = aten::permute(%5) {dims = [0, 3, 1, 2]}: f32[1, 2, 8, 8]\n"
      "%7 = td::resize(%6, -, %2) {mode = \"nearest\", coordinates = \"half_pixel\", nearest = "
      "\"round_prefer_floor\", cubic_a = -0.75, exclude_outside = false, extrapolation = 0, antialias = false, "
      "policy = \"stretch\", axes = []}: f32[1, 2, 16, 16]\n"
      "output \"y\" %7\n",
      2);
}

static void constants_are_seen_with_channels_last(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 5, 4, 4]\n"
                "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                "const %2: f32[2, 1, 1] = {1, 2}\n"
                "const %3: f32[] = {3}\n"
                "%4 = aten::convolution(%0, %1)\n"
                "%5 = aten::mul(%4, %2)\n"
                "%6 = aten::div(%5, %3)\n"
                "output \"y\" %6\n",
                "input %0 \"x\": f32[1, 5, 4, 4]\n"
                "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                "const %2: f32[1, 1, 1, 2] = {1, 2}\n"
                "const %3: f32[] = {3}\n"
                "%4 = aten::permute(%0) {dims = [0, 2, 3, 1]}: f32[1, 4, 4, 5]\n"
                "%5 = td::conv(%4, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 2, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 2]\n"
                "%6 = aten::mul(%5, %2): f32[1, 4, 4, 2]\n"
                "%7 = aten::div(%6, %3) {rounding_mode = \"\"}: f32[1, 4, 4, 2]\n"
                "%8 = aten::permute(%7) {dims = [0, 3, 1, 2]}: f32[1, 2, 4, 4]\n"
                "output \"y\" %8\n",
                3);
}

static void permutations_meet(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 2, 3, 4]\n"
                "%1 = aten::permute(%0) {dims = [0, 2, 3, 1]}\n"
                "%2 = aten::permute(%1) {dims = [0, 3, 1, 2]}\n"
                "%3 = aten::permute(%1) {dims = [0, 2, 1, 3]}\n"
                "output \"y\" %2\noutput \"z\" %3\n",
                "input %0 \"x\": f32[1, 2, 3, 4]\n"
                "%1 = aten::permute(%0) {dims = [0, 3, 2, 1]}: f32[1, 4, 3, 2]\n"
                "output \"y\" %0\n"
                "output \"z\" %1\n",
                2);
}

static void images_of_whole_squares_are_read_as_they_lie(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 8, 4, 4]\n"
                "const %1: f32[1, 8, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
                "%2 = aten::convolution(%0, %1)\n"
                "output \"y\" %2\n",
                "input %0 \"x\": f32[1, 8, 4, 4]\n"
                "const %1: f32[1, 8, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
                "%2 = td::conv(%0, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 1, panel = 0, channels_first = true, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 1]\n"
                "%3 = aten::permute(%2) {dims = [0, 3, 1, 2]}: f32[1, 1, 4, 4]\n"
                "output \"y\" %3\n",
                1);
}

/* The way back, as in transformers with depthwise convolutions: [N, H W, C] is an image with channels last. */
static void tokens_become_images_without_moving(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[2, 6, 5]\n"
                "const %1: i64[4] = {0, 5, 2, 3}\n"
                "%2 = aten::permute(%0) {dims = [0, 2, 1]}\n"
                "%3 = aten::view(%2, %1) {zero_copies = true}\n"
                "output \"y\" %3\n",
                "input %0 \"x\": f32[2, 6, 5]\n"
                "const %1: i64[4] = {2, 2, 3, 5}\n"
                "%2 = aten::view(%0, %1) {zero_copies = false}: f32[2, 2, 3, 5]\n"
                "%3 = aten::permute(%2) {dims = [0, 3, 1, 2]}: f32[2, 5, 2, 3]\n"
                "output \"y\" %3\n",
                1);
}

/* Their height and width may be open: the sizes that the view is asked for are so in the other order. */
static void tokens_become_images_of_open_sizes(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[n, k, 5]\n"
                "input %1 \"like\": f32[n, 5, h, w]\n"
                "%2 = td::shape(%1)\n"
                "%3 = aten::permute(%0) {dims = [0, 2, 1]}\n"
                "%4 = aten::view(%3, %2)\n"
                "output \"y\" %4\n",
                "input %0 \"x\": f32[n, k, 5]\n"
                "input %1 \"like\": f32[n, 5, h, w]\n"
                "const %2: i64[4] = {0, 2, 3, 1}\n"
                "%3 = td::shape(%1) {start = 0, end = 9223372036854775807}: i64[4]\n"
                "%4 = aten::index_select(%3, %2) {dim = 0}: i64[4]\n"
                "%5 = aten::view(%0, %4) {zero_copies = false}: f32[n, h, w, 5]\n"
                "%6 = aten::permute(%5) {dims = [0, 3, 1, 2]}: f32[n, 5, h, w]\n"
                "output \"y\" %6\n",
                1);
}

/* Windows have kernels for channels last alone; the mean of all is one of either. */
static void pools_of_windows_are_permuted(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 2, 4, 4]\n"
                "%1 = td::max_pool(%0) {kernel_size = [2, 2], stride = [2, 2]}\n"
                "%2 = td::avg_pool(%0)\n"
                "output \"y\" %1\noutput \"z\" %2\n",
                "input %0 \"x\": f32[1, 2, 4, 4]\n"
                "%1 = aten::permute(%0) {dims = [0, 2, 3, 1]}: f32[1, 4, 4, 2]\n"
                "%2 = td::max_pool(%1) {stride = [2, 2], padding = [], dilation = [], auto_pad = \"\", kernel_size = "
                "[2, 2], ceil_mode = false, column_major_indices = false, channels_last = true}: f32[1, 2, 2, 2]\n"
                "%3 = aten::permute(%2) {dims = [0, 3, 1, 2]}: f32[1, 2, 2, 2]\n"
                "%4 = td::avg_pool(%0) {stride = [], padding = [], dilation = [], auto_pad = \"\", kernel_size = [], "
                "ceil_mode = false, count_include_pad = false, channels_last = false}: f32[1, 2, 1, 1]\n"
                "output \"y\" %3\n"
                "output \"z\" %4\n",
                1);
}

/* Pads of all axes change their order, named axes their names. */
static void borders_follow(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 2, 3, 4]\n"
                "const %1: i64[8] = {0, 5, 1, 2, 0, 6, 3, 4}\n"
                "const %2: i64[2] = {1, 1}\n"
                "const %3: i64[1] = {-1}\n"
                "%4 = aten::permute(%0) {dims = [0, 3, 1, 2]}\n"
                "%5 = aten::reflection_pad(%4, %2, %3)\n"
                "%6 = aten::constant_pad_nd(%5, %1)\n"
                "output \"y\" %6\n",
                "input %0 \"x\": f32[1, 2, 3, 4]\n"
                "const %1: i64[2] = {1, 1}\n"
                "const %2: i64[1] = {2}\n"
                "const %3: i64[8] = {0, 1, 2, 5, 0, 3, 4, 6}\n"
                "%4 = aten::reflection_pad(%0, %1, %2): f32[1, 2, 5, 4]\n"
                "%5 = aten::constant_pad_nd(%4, %3): f32[1, 6, 11, 15]\n"
                "%6 = aten::permute(%5) {dims = [0, 3, 1, 2]}: f32[1, 15, 6, 11]\n"
                "output \"y\" %6\n",
                2);
}

/* A vision transformer's patches: [N, C, H, W] as [N, C, H W], transposed, is [N, H, W, C] as [N, H W, C]. */
static void patches_become_tokens_without_moving(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 3, 4, 4]\n"
                "const %1: f32[2, 3, 1, 1] = {1, 2, 3, 4, 5, 6}\n"
                "const %2: i64[3] = {1, 2, 16}\n"
                "%3 = aten::convolution(%0, %1)\n"
                "%4 = aten::view(%3, %2)\n"
                "%5 = aten::permute(%4) {dims = [0, 2, 1]}\n"
                "output \"y\" %5\n",
                "input %0 \"x\": f32[1, 3, 4, 4]\n"
                "const %1: f32[2, 3, 1, 1] = {1, 2, 3, 4, 5, 6}\n"
                "const %2: i64[3] = {1, 16, 2}\n"
                "%3 = td::conv(%0, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 2, panel = 0, channels_first = true, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 2]\n"
                "%4 = aten::view(%3, %2) {zero_copies = false}: f32[1, 16, 2]\n"
                "output \"y\" %4\n",
                3);
}

static void images_of_open_sizes_become_tokens(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[n, 3, h, w]\n"
                "const %1: f32[2, 3, 1, 1] = {1, 2, 3, 4, 5, 6}\n"
                "const %2: i64[3] = {0, 2, -1}\n"
                "%3 = aten::convolution(%0, %1)\n"
                "%4 = aten::view(%3, %2) {zero_copies = true}\n"
                "%5 = aten::permute(%4) {dims = [0, 2, 1]}\n"
                "output \"y\" %5\n",
                "input %0 \"x\": f32[n, 3, h, w]\n"
                "const %1: f32[2, 3, 1, 1] = {1, 2, 3, 4, 5, 6}\n"
                "const %2: i64[3] = {0, -1, 2}\n"
                "%3 = td::conv(%0, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 2, panel = 0, channels_first = true, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[n, h, w, 2]\n"
                "%4 = aten::view(%3, %2) {zero_copies = true}: f32[n, mul(h, w), 2]\n"
                "output \"y\" %4\n",
                3);
}

static void means_over_pixels_leave_channels(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 5, 4, 4]\n"
                "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                "%2 = aten::convolution(%0, %1)\n"
                "%3 = aten::mean(%2) {dim = [2, 3], keepdim = false}\n"
                "%4 = td::avg_pool(%2)\n"
                "%5 = td::flatten(%4)\n"
                "output \"y\" %3\noutput \"z\" %5\n",
                "input %0 \"x\": f32[1, 5, 4, 4]\n"
                "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                "%2 = aten::permute(%0) {dims = [0, 2, 3, 1]}: f32[1, 4, 4, 5]\n"
                "%3 = td::conv(%2, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 2, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 4, 2]\n"
                "%4 = aten::mean(%3) {dim = [1, 2], keepdim = false, noop = false}: f32[1, 2]\n"
                "%5 = td::avg_pool(%3) {stride = [], padding = [], dilation = [], auto_pad = \"\", kernel_size = [], "
                "ceil_mode = false, count_include_pad = false, channels_last = true}: f32[1, 1, 1, 2]\n"
                "%6 = td::flatten(%5) {axis = 1}: f32[1, 2]\n"
                "output \"y\" %4\n"
                "output \"z\" %6\n",
                4);
}

/* Over some axes: what is left is seen in its own order. */
static void reductions_over_an_axis_follow(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 5, 4, 3]\n"
                "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                "%2 = aten::convolution(%0, %1)\n"
                "%3 = aten::amax(%2) {dim = [-1], keepdim = false}\n"
                "output \"y\" %3\n",
                "input %0 \"x\": f32[1, 5, 4, 3]\n"
                "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                "%2 = aten::permute(%0) {dims = [0, 2, 3, 1]}: f32[1, 4, 3, 5]\n"
                "%3 = td::conv(%2, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
                "groups = 1, channels = 2, panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, 4, 3, 2]\n"
                "%4 = aten::amax(%3) {dim = [2], keepdim = false, noop = false}: f32[1, 4, 2]\n"
                "%5 = aten::permute(%4) {dims = [0, 2, 1]}: f32[1, 2, 4]\n"
                "output \"y\" %5\n",
                2);
}

/* A mean over windows of a linear map of channels; not where an activation stands between. */
static void means_are_taken_first(void **state) {
  (void)state;
  expect_change(
      "pool_first",
      "input %0 \"x\": f32[1, 4, 4, 2]\n"
      "const %1: f32[2, 2, 1, 1] = {1, 2, 3, 4}\n"
      "%2 = td::conv(%0, %1) {kernel = [1, 1], channels = 2}\n"
      "%3 = td::avg_pool(%2) {kernel_size = [2, 2], stride = [2, 2], channels_last = true}\n"
      "%4 = td::conv(%0, %1) {kernel = [1, 1], channels = 2, act = \"relu\"}\n"
      "%5 = td::avg_pool(%4) {kernel_size = [2, 2], stride = [2, 2], channels_last = true}\n"
      "output \"y\" %3\noutput \"z\" %5\n",
      "input %0 \"x\": f32[1, 4, 4, 2]\n"
      "const %1: f32[2, 2, 1, 1] = {1, 2, 3, 4}\n"
      "%2 = td::avg_pool(%0) {stride = [2, 2], padding = [], dilation = [], auto_pad = \"\", kernel_size = [2, 2], "
      "ceil_mode = false, count_include_pad = false, channels_last = true}: f32[1, 2, 2, 2]\n"
      "%3 = td::conv(%2, %1) {kernel = [1, 1], stride = [], padding = [], dilation = [], groups = 1, channels = 2, "
      "panel = 0, channels_first = false, act = \"none\", act_a = 0, act_b = 0, act_late = false, in_front = false}: "
      "f32[1, 2, 2, 2]\n"
      "%4 = td::conv(%0, %1) {kernel = [1, 1], stride = [], padding = [], dilation = [], groups = 1, channels = 2, "
      "panel = 0, channels_first = false, act = \"relu\", act_a = 0, act_b = 0, act_late = false, in_front = false}: "
      "f32[1, 4, 4, 2]\n"
      "%5 = td::avg_pool(%4) {stride = [2, 2], padding = [], dilation = [], auto_pad = \"\", kernel_size = [2, 2], "
      "ceil_mode = false, count_include_pad = false, channels_last = true}: f32[1, 2, 2, 2]\n"
      "output \"y\" %3\n"
      "output \"z\" %5\n",
      1);
}

static void batch_norms_become_scale_and_shift(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 4, 4, 2]\n"
                "const %1: f32[2] = {2, 4}\n"
                "const %2: f32[2] = {1, 1}\n"
                "const %3: f32[2] = {10, 20}\n"
                "const %4: f32[2] = {4, 1}\n"
                "%5 = aten::permute(%0) {dims = [0, 3, 1, 2]}\n"
                "%6 = aten::_native_batch_norm_legit_no_training(%5, %1, %2, %3, %4) {eps = 0}\n"
                "output \"y\" %6\n",
                "input %0 \"x\": f32[1, 4, 4, 2]\n"
                "const %1: f32[2] = {1, 4}\n"
                "const %2: f32[2] = {-9, -79}\n"
                "%3 = td::scale_shift(%0, %1, %2) {act = \"none\"}: f32[1, 4, 4, 2]\n"
                "%4 = aten::permute(%3) {dims = [0, 3, 1, 2]}: f32[1, 2, 4, 4]\n"
                "output \"y\" %4\n",
                1);
}

/* One whose input does not stand channels last: numbers per channel that broadcast. */
static void batch_norms_without_images_become_products(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[n, 2, 5]\n"
                "const %1: f32[2] = {2, 4}\n"
                "const %2: f32[2] = {1, 1}\n"
                "const %3: f32[2] = {10, 20}\n"
                "const %4: f32[2] = {4, 1}\n"
                "%5 = aten::_native_batch_norm_legit_no_training(%0, %1, %2, %3, %4) {eps = 0}\n"
                "output \"y\" %5\n",
                "input %0 \"x\": f32[n, 2, 5]\n"
                "const %1: f32[2, 1] = {1, 4}\n"
                "const %2: f32[2, 1] = {-9, -79}\n"
                "%3 = aten::mul(%0, %1): f32[n, 2, 5]\n"
                "%4 = aten::add(%3, %2): f32[n, 2, 5]\n"
                "output \"y\" %4\n",
                1);
}

#define PLAIN_CONV \
  "{stride = [], padding = [], dilation = [], auto_pad = \"\", transposed = false, output_padding = [], groups = "
static void weights_need_not_be_constants(void **state) {
  (void)state;
  expect_change(
      "channels_last",
      "input %0 \"x\": f32[1, 2, h, 4]\n"
      "input %1 \"w\": f32[3, 2, 1, 1]\n"
      "input %2 \"b\": f32[3]\n"
      "%3 = aten::permute(%0) {dims = [0, 2, 3, 1]}\n"
      "%4 = aten::permute(%3) {dims = [0, 3, 1, 2]}\n"
      "%5 = aten::convolution(%4, %1, %2) " PLAIN_CONV
      "1, output_size = []}\n"
      "output \"y\" %5\n",
      "input %0 \"x\": f32[1, 2, h, 4]\n"
      "input %1 \"w\": f32[3, 2, 1, 1]\n"
      "input %2 \"b\": f32[3]\n"
      "%3 = td::conv(%0, %1, %2) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], "
      "groups = 1, channels = 3, panel = 0, channels_first = true, act = \"none\", act_a = 0, act_b = 0, "
      "act_late = false, in_front = false}: f32[1, h, 4, 3]\n"
      "%4 = aten::permute(%3) {dims = [0, 3, 1, 2]}: f32[1, 3, h, 4]\n"
      "output \"y\" %4\n",
      2);
  /* depthwise: taps in front */
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 2, h, 4]\n"
                "input %1 \"w\": f32[2, 1, 1, 3]\n"
                "%2 = aten::convolution(%0, %1) " PLAIN_CONV
                "2, output_size = []}\n"
                "output \"y\" %2\n",
                "input %0 \"x\": f32[1, 2, h, 4]\n"
                "input %1 \"w\": f32[2, 1, 1, 3]\n"
                "const %2: i64[2] = {2, 3}\n"
                "%3 = aten::view(%1, %2) {zero_copies = false}: f32[2, 3]\n"
                "%4 = aten::permute(%3) {dims = [1, 0]}: f32[3, 2]\n"
                "%5 = aten::permute(%0) {dims = [0, 2, 3, 1]}: f32[1, h, 4, 2]\n"
                "%6 = td::depthwise_conv(%5, %4) {kernel = [1, 3], stride = [1, 1], padding = [0, 0, 0, 0], dilation = "
                "[1, 1], groups = 2, channels = 2, panel = 1, channels_first = false, act = \"none\", act_a = 0, act_b "
                "= 0, act_late = false, in_front = false}: f32[1, h, 2, 2]\n"
                "%7 = aten::permute(%6) {dims = [0, 3, 1, 2]}: f32[1, 2, h, 2]\n"
                "output \"y\" %7\n",
                1);
}

/* The padding that the size takes: the odd one goes in front, but with same_upper. */
static void transposed_convolutions_of_told_sizes(void **state) {
  (void)state;
  static const struct {
    const char *told, *sizes, *padding, *out;
  } cases[] = {{"", "[5, 4]", "1, 1, 0, 0", "5, 4, 1"},
               {"same_upper", "[5, 4]", "0, 0, 1, 1", "5, 4, 1"},
               {"same_lower", "[]", "0, 1, 0, 0", "6, 4, 1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char before[512], after[1024];
    snprintf(before, sizeof before,
             "input %%0 \"x\": f32[1, 2, 3, 2]\n"
             "input %%1 \"w\": f32[2, 1, 2, 3]\n"
             "%%2 = aten::convolution(%%0, %%1) {stride = [2, 2], padding = [], dilation = [], auto_pad = \"%s\", "
             "transposed = true, output_padding = [], groups = 1, output_size = %s}\n"
             "output \"y\" %%2\n",
             cases[i].told, cases[i].sizes);
    snprintf(after, sizeof after,
             "input %%0 \"x\": f32[1, 2, 3, 2]\n"
             "input %%1 \"w\": f32[2, 1, 2, 3]\n"
             "%%2 = aten::permute(%%0) {dims = [0, 2, 3, 1]}: f32[1, 3, 2, 2]\n"
             "%%3 = td::conv_transpose(%%2, %%1) {kernel = [2, 3], stride = [2, 2], padding = [%s], dilation = [1, 1], "
             "groups = 1, channels = 1, panel = 0, channels_first = false, output_padding = [0, 0], act = \"none\", "
             "act_a = 0, act_b = 0, act_late = false, in_front = false}: f32[1, %s]\n"
             "%%4 = aten::permute(%%3) {dims = [0, 3, 1, 2]}: f32[1, 1, %.4s]\n"
             "output \"y\" %%4\n",
             cases[i].padding, cases[i].out, cases[i].out);
    expect_change("channels_last", before, after, 1);
  }
}

static void what_cannot_follow_stays(void **state) {
  (void)state;
  /* weights of an open size; padding that depends on an open size */
  expect_same("channels_last",
              "input %0 \"x\": f32[1, 2, h, 4]\n"
              "input %1 \"w\": f32[n, 2, 1, 1]\n"
              "%2 = aten::convolution(%0, %1) " PLAIN_CONV
              "1, output_size = []}: f32[1, n, h, 4]\n"
              "%3 = aten::relu(%2): f32[1, n, h, 4]\n"
              "output \"y\" %3\n");
  expect_same(
      "channels_last",
      "input %0 \"x\": f32[1, 2, h, 4]\n"
      "const %1: f32[2, 2, 1, 1] = {1, 2, 3, 4}\n"
      "%2 = aten::convolution(%0, %1) {stride = [2, 2], padding = [], dilation = [], auto_pad = \"same_upper\", "
      "transposed = false, output_padding = [], groups = 1, output_size = []}: f32[1, 2, div(add(h, 1), 2), 2]\n"
      "%3 = aten::relu(%2): f32[1, 2, div(add(h, 1), 2), 2]\n"
      "output \"y\" %3\n");
}

/* By steps of 1 it depends on the window alone. */
static void single_steps_need_no_size(void **state) {
  (void)state;
  expect_change("channels_last",
                "input %0 \"x\": f32[1, 2, h, 4]\n"
                "const %1: f32[1, 2, 2, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                "%2 = aten::convolution(%0, %1) {auto_pad = \"same_upper\"}\n"
                "output \"y\" %2\n",
                "input %0 \"x\": f32[1, 2, h, 4]\n"
                "const %1: f32[1, 2, 2, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                "%2 = td::conv(%0, %1) {kernel = [2, 3], stride = [1, 1], padding = [0, 1, 1, 1], dilation = [1, 1], "
                "groups = 1, channels = 1, panel = 0, channels_first = true, act = \"none\", act_a = 0, act_b = 0, "
                "act_late = false, in_front = false}: f32[1, h, 4, 1]\n"
                "%3 = aten::permute(%2) {dims = [0, 3, 1, 2]}: f32[1, 1, h, 4]\n"
                "output \"y\" %3\n",
                1);
}

/* What only looks like a batch norm that can be had as f32, or like a mean over all pixels. */
static void other_types_and_axes_stay(void **state) {
  (void)state;
  expect_same("channels_last",
              "input %0 \"x\": f64[1, 4, 4, 2]\n"
              "const %1: f64[2] = {1, 2}\n"
              "%2 = aten::permute(%0) {dims = [0, 3, 1, 2]}: f64[1, 2, 4, 4]\n"
              "%3 = aten::_native_batch_norm_legit_no_training(%2, %1, %1, %1, %1) {eps = 0.5}: f64[1, 2, 4, 4]\n"
              "output \"y\" %3\n");
  expect_same("channels_last",
              "input %0 \"x\": f32[1, 4, 4, 2]\n"
              "%1 = aten::permute(%0) {dims = [0, 3, 1, 2]}: f32[1, 2, 4, 4]\n"
              "%2 = aten::mean(%1) {dim = [2, -2], keepdim = false, noop = false}: f32[1, 2, 4]\n"
              "output \"y\" %2\n");
}

/* Where channels_last is disabled. */
static void a_convolution_stands_between_permutations(void **state) {
  (void)state;
  expect_change_with(&(passes_setting){.disabled = "channels_last"}, "windows",
                     "input %0 \"x\": f32[1, 5, 4, 4]\n"
                     "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                     "%2 = aten::convolution(%0, %1)\n"
                     "output \"y\" %2\n",
                     "input %0 \"x\": f32[1, 5, 4, 4]\n"
                     "const %1: f32[2, 5, 1, 1] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
                     "%2 = aten::permute(%0) {dims = [0, 2, 3, 1]}: f32[1, 4, 4, 5]\n"
                     "%3 = td::conv(%2, %1) {kernel = [1, 1], stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, "
                     "1], groups = 1, channels = 2, panel = 0, channels_first = false, act = \"none\", act_a = 0, "
                     "act_b = 0, act_late = false, in_front = false}: f32[1, 4, 4, 2]\n"
                     "%4 = aten::permute(%3) {dims = [0, 3, 1, 2]}: f32[1, 2, 4, 4]\n"
                     "output \"y\" %4\n",
                     1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pictures_become_planes),
      cmocka_unit_test(one_channel_is_a_plane),
      cmocka_unit_test(layouts_can_be_compared),
      cmocka_unit_test(channels_are_shuffled_where_they_are),
      cmocka_unit_test(a_network_is_permuted_at_its_ends),
      cmocka_unit_test(what_grows_at_the_end_is_permuted_before),
      cmocka_unit_test(constants_are_seen_with_channels_last),
      cmocka_unit_test(permutations_meet),
      cmocka_unit_test(images_of_whole_squares_are_read_as_they_lie),
      cmocka_unit_test(borders_follow),
      cmocka_unit_test(tokens_become_images_without_moving),
      cmocka_unit_test(tokens_become_images_of_open_sizes),
      cmocka_unit_test(pools_of_windows_are_permuted),
      cmocka_unit_test(patches_become_tokens_without_moving),
      cmocka_unit_test(images_of_open_sizes_become_tokens),
      cmocka_unit_test(means_over_pixels_leave_channels),
      cmocka_unit_test(reductions_over_an_axis_follow),
      cmocka_unit_test(means_are_taken_first),
      cmocka_unit_test(batch_norms_become_scale_and_shift),
      cmocka_unit_test(batch_norms_without_images_become_products),
      cmocka_unit_test(weights_need_not_be_constants),
      cmocka_unit_test(transposed_convolutions_of_told_sizes),
      cmocka_unit_test(single_steps_need_no_size),
      cmocka_unit_test(what_cannot_follow_stays),
      cmocka_unit_test(other_types_and_axes_stay),
      cmocka_unit_test(a_convolution_stands_between_permutations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
