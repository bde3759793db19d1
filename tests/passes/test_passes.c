/* test_passes.c -- each pass by the text before and after it, what it must leave alone, and that results stay. */
#include "passes/change.h"

/* ---- identity ---- */

static void identity_removes(void **state) {
  (void)state;
  expect_change("identity",
                "input %0 \"x\": f32[2, n]\n"
                "const %1: i64[2] = {2, -1}\n"
                "%2 = aten::_to_copy(%0) {dtype = f32}\n"
                "%3 = aten::permute(%2) {dims = [0, 1]}\n"
                "%4 = aten::neg(%3)\n"
                "output \"y\" %4\noutput \"z\" %3\n",
                "input %0 \"x\": f32[2, n]\n"
                "%1 = aten::neg(%0): f32[2, n]\n"
                "output \"y\" %1\noutput \"z\" %0\n",
                2);
}

/* As many elements as there are, in order, are all of them; in the other order they are not the same. */
static void identity_takes_whole_slices(void **state) {
  (void)state;
  expect_change("identity",
                "input %0 \"x\": f32[n, 4]\n"
                "const %1: i64[1] = {0}\nconst %2: i64[1] = {4}\nconst %3: i64[1] = {1}\nconst %4: i64[1] = {1}\n"
                "%5 = aten::slice(%0, %1, %2, %3)\n%6 = aten::slice(%5, %1, %2, %3, %4)\n%7 = aten::relu(%6)\n"
                "output \"y\" %7\n",
                "input %0 \"x\": f32[n, 4]\n%1 = aten::relu(%0): f32[n, 4]\noutput \"y\" %1\n", 2);
  expect_same("identity",
              "input %0 \"x\": f32[n, 4]\n"
              "const %1: i64[1] = {-1}\nconst %2: i64[1] = {-9}\nconst %3: i64[1] = {1}\n"
              "%4 = aten::slice(%0, %1, %2, %3, %1): f32[n, 4]\noutput \"y\" %4\n");
}

static void identity_leaves_alone(void **state) {
  (void)state;
  expect_same("identity",
              "input %0 \"x\": f32[2, 2]\n"
              "%1 = aten::permute(%0) {dims = [1, 0]}: f32[2, 2]\n"
              "%2 = aten::permute(%0) {dims = []}: f32[2, 2]\n"
              "%3 = aten::_to_copy(%0) {dtype = f64, saturate = true, round_mode = \"up\"}: f64[2, 2]\n"
              "%4 = aten::relu(%0): f32[2, 2]\n"
              "output \"a\" %1\noutput \"b\" %2\noutput \"c\" %3\noutput \"d\" %4\n");
}

/* ---- common ---- */

static void common_shares(void **state) {
  (void)state;
  expect_change("common",
                "input %0 \"x\": f32[2]\n"
                "input %1 \"c\": bool[]\n"
                "%2 = aten::exp(%0)\n"
                "%3 = aten::exp(%0)\n"
                "%4 = aten::add(%2, %0)\n"
                "%5 = aten::add(%3, %0)\n"
                "%6 = prim::If(%1): f32[2] {\n"
                "  block() {\n"
                "    %7 = aten::exp(%0)\n"
                "    %8 = aten::sin(%7)\n"
                "    yield %8\n"
                "  }\n"
                "  block() {\n"
                "    %9 = aten::sin(%3)\n"
                "    yield %9\n"
                "  }\n"
                "}\n"
                "%10 = aten::sin(%2)\n"
                "output \"a\" %4\noutput \"b\" %5\noutput \"c\" %6\noutput \"d\" %10\n",
                "input %0 \"x\": f32[2]\n"
                "input %1 \"c\": bool[]\n"
                "%2 = aten::exp(%0): f32[2]\n"
                "%3 = aten::add(%2, %0): f32[2]\n"
                "%4 = prim::If(%1): f32[2] {\n"
                "  block() {\n"
                "    %5 = aten::sin(%2): f32[2]\n"
                "    yield %5\n"
                "  }\n"
                "  block() {\n"
                "    %6 = aten::sin(%2): f32[2]\n"
                "    yield %6\n"
                "  }\n"
                "}\n"
                "%7 = aten::sin(%2): f32[2]\n"
                "output \"a\" %3\noutput \"b\" %3\noutput \"c\" %4\noutput \"d\" %7\n",
                3);
}

/* Constants are equal by type and contents; large ones are not compared. */
static void common_compares_constants(void **state) {
  (void)state;
  expect_change("common",
                "input %0 \"x\": i64[2]\n"
                "const %1: i64[2] = {1, 2}\nconst %2: i64[2] = {1, 2}\n"
                "const %3: i64[2] = {1, 3}\nconst %4: i64[1, 2] = {1, 2}\n"
                "%5 = aten::add(%0, %1)\n%6 = aten::add(%0, %2)\n"
                "%7 = aten::add(%0, %3)\n%8 = aten::add(%0, %4)\n"
                "%9 = aten::mul(%6, %7)\n%10 = aten::mul(%5, %9)\n%11 = aten::mul(%10, %8)\n"
                "output \"y\" %11\n",
                "input %0 \"x\": i64[2]\n"
                "const %1: i64[2] = {1, 2}\n"
                "const %2: i64[2] = {1, 3}\n"
                "const %3: i64[1, 2] = {1, 2}\n"
                "%4 = aten::add(%0, %1): i64[2]\n"
                "%5 = aten::add(%0, %2): i64[2]\n"
                "%6 = aten::add(%0, %3): i64[1, 2]\n"
                "%7 = aten::mul(%4, %5): i64[2]\n"
                "%8 = aten::mul(%4, %7): i64[2]\n"
                "%9 = aten::mul(%8, %6): i64[1, 2]\n"
                "output \"y\" %9\n",
                1);
}

static void common_leaves_alone(void **state) {
  (void)state;
  expect_same("common",
              "input %0 \"x\": f32[2, 3]\n"
              "%1 = aten::_softmax(%0) {dim = 0, flatten = false}: f32[2, 3]\n"
              "%2 = aten::_softmax(%0) {dim = 1, flatten = false}: f32[2, 3]\n"
              "%3 = aten::sub(%1, %2): f32[2, 3]\n"
              "%4 = aten::sub(%2, %1): f32[2, 3]\n"
              "output \"a\" %3\noutput \"b\" %4\n");
}

/* ---- batchnorm ---- */

#define CONV                                                                                                           \
  " {stride = [], padding = [], dilation = [], auto_pad = \"\", transposed = false, output_padding = [], groups = 1, " \
  "output_size = []}"
#define NORM_INPUTS                      \
  "input %0 \"x\": f32[1, 1, 2, 2]\n"    \
  "const %1: f32[2, 1, 1, 1] = {2, 3}\n" \
  "const %2: f32[2] = {4, 8}\n"          \
  "const %3: f32[2] = {1, -1}\n"         \
  "const %4: f32[2] = {0.5, 0.25}\n"     \
  "const %5: f32[2] = {3, 15}\n"
#define NORM(x) "aten::_native_batch_norm_legit_no_training(" x ", %2, %3, %4, %5) {eps = 1}"

static void batchnorm_folds(void **state) {
  (void)state;
  expect_change("batchnorm",
                NORM_INPUTS "%6 = aten::convolution(%0, %1)" CONV "  # \"conv\"\n"
                "%7 = " NORM("%6") "  # \"norm\"\n"
                "output \"y\" %7\n",
                "input %0 \"x\": f32[1, 1, 2, 2]\n"
                "const %1: f32[2, 1, 1, 1] = {4, 6}\n"
                "const %2: f32[2] = {0, -1.5}\n"
                "%3 = aten::convolution(%0, %1, %2)" CONV ": f32[1, 2, 2, 2]  # \"conv\" \"norm\"\n"
                "output \"y\" %3\n",
                1);
}

static void batchnorm_leaves_alone(void **state) {
  (void)state;
  /* the convolution is used elsewhere */
  expect_same("batchnorm",
              NORM_INPUTS "%6 = aten::convolution(%0, %1)" CONV ": f32[1, 2, 2, 2]\n"
              "%7 = " NORM("%6") ": f32[1, 2, 2, 2]\n"
              "output \"y\" %7\noutput \"z\" %6\n");
  /* or in a nested block */
  expect_same("batchnorm",
              "input %0 \"x\": f32[1, 1, 2, 2]\n"
              "input %1 \"c\": bool[]\n"
              "const %2: f32[1, 1, 1, 1] = {2}\n"
              "const %3: f32[1] = {4}\n"
              "%4 = aten::convolution(%0, %2)" CONV
              ": f32[1, 1, 2, 2]\n"
              "%5 = aten::_native_batch_norm_legit_no_training(%4, %3, %3, %3, %3) {eps = 1}: f32[1, 1, 2, 2]\n"
              "%6 = prim::If(%1): f32[1, 1, 2, 2] {\n"
              "  block() {\n"
              "    yield %4\n"
              "  }\n"
              "  block() {\n"
              "    yield %5\n"
              "  }\n"
              "}\n"
              "output \"y\" %6\n");
  /* statistics that are no constants */
  expect_same("batchnorm",
              "input %0 \"x\": f32[1, 1, 2, 2]\n"
              "input %1 \"s\": f32[1]\n"
              "const %2: f32[1, 1, 1, 1] = {2}\n"
              "%3 = aten::convolution(%0, %2)" CONV
              ": f32[1, 1, 2, 2]\n"
              "%4 = aten::_native_batch_norm_legit_no_training(%3, %1, %1, %1, %1) {eps = 1}: f32[1, 1, 2, 2]\n"
              "output \"y\" %4\n");
}

/* Of two norms in a row the second may not be folded when the first one's result has other users. */
static void batchnorm_counts_uses_anew(void **state) {
  (void)state;
  expect_change("batchnorm",
                NORM_INPUTS "%6 = aten::convolution(%0, %1)" CONV "\n"
                "%7 = " NORM("%6") "\n"
                "%8 = " NORM("%7") "\n"
                "output \"y\" %7\noutput \"z\" %8\n",
                "input %0 \"x\": f32[1, 1, 2, 2]\n"
                "const %1: f32[2, 1, 1, 1] = {4, 6}\n"
                "const %2: f32[2] = {0, -1.5}\n"
                "const %3: f32[2] = {4, 8}\n"
                "const %4: f32[2] = {1, -1}\n"
                "const %5: f32[2] = {0.5, 0.25}\n"
                "const %6: f32[2] = {3, 15}\n"
                "%7 = aten::convolution(%0, %1, %2)" CONV ": f32[1, 2, 2, 2]\n"
                "%8 = aten::_native_batch_norm_legit_no_training(%7, %3, %4, %5, %6) {eps = 1}: f32[1, 2, 2, 2]\n"
                "output \"y\" %7\noutput \"z\" %8\n",
                1);
}

/* Behind a product of rows: scale and shift, in front of the views that keep the channels. */
static void batchnorm_of_rows_is_a_product(void **state) {
  (void)state;
  expect_change("batchnorm",
                "input %0 \"x\": f32[2, 3, 2]\n"
                "const %1: i64[2] = {6, 2}\n"
                "const %2: f32[2] = {2, 4}\n"
                "const %3: f32[2] = {1, 1}\n"
                "const %4: f32[2] = {10, 20}\n"
                "const %5: f32[2] = {4, 1}\n"
                "%6 = aten::view(%0, %1)\n"
                "%7 = aten::_native_batch_norm_legit_no_training(%6, %2, %3, %4, %5) {eps = 0}\n"
                "output \"y\" %7\n",
                "input %0 \"x\": f32[2, 3, 2]\n"
                "const %1: f32[2] = {1, 4}\n"
                "const %2: f32[2] = {-9, -79}\n"
                "const %3: i64[2] = {6, 2}\n"
                "%4 = aten::mul(%0, %1): f32[2, 3, 2]\n"
                "%5 = aten::add(%4, %2): f32[2, 3, 2]\n"
                "%6 = aten::view(%5, %3) {zero_copies = false}: f32[6, 2]\n"
                "output \"y\" %6\n",
                1);
  /* a view that somebody else sees, or that cuts channels, is not passed by */
  expect_change("batchnorm",
                "input %0 \"x\": f32[2, 6]\n"
                "const %1: i64[2] = {6, 2}\n"
                "const %2: f32[2] = {4, 16}\n"
                "%3 = aten::view(%0, %1)\n"
                "%4 = aten::_native_batch_norm_legit_no_training(%3, -, -, %2, %2) {eps = 0}\n"
                "output \"y\" %4\n",
                "input %0 \"x\": f32[2, 6]\n"
                "const %1: i64[2] = {6, 2}\n"
                "const %2: f32[2] = {0.5, 0.25}\n"
                "const %3: f32[2] = {-2, -4}\n"
                "%4 = aten::view(%0, %1) {zero_copies = false}: f32[6, 2]\n"
                "%5 = aten::mul(%4, %2): f32[6, 2]\n"
                "%6 = aten::add(%5, %3): f32[6, 2]\n"
                "output \"y\" %6\n",
                1);
}

/* ---- dead ---- */

/* Panels of AVX2 are eight units wide: the gates of one weight stand side by side. */
#define UNIT(weight) #weight ", 0, 0, 0, 0, 0, 0, 0"
#define TWO(a, b) UNIT(a) ", " UNIT(b)
#define THREE(a, b, c) TWO(a, b) ", " UNIT(c)
#define FOUR(a, b, c, d) TWO(a, b) ", " TWO(c, d)

static void recurrent_packs(void **state) {
  (void)state;
  expect_change_at(level_of("avx2"), "recurrent",
                "input %0 \"x\": f32[n, 1, 2]\n"
                "const %1: f32[1, 4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
                "const %2: f32[1, 4, 1] = {9, 10, 11, 12}\n"
                "const %3: f32[1, 8] = {1, 2, 3, 4, 10, 20, 30, 40}\n"
                "%4, %5 = td::lstm(%0, %1, %2, %3) {direction = \"reverse\"}\n"
                "output \"y\" %4\noutput \"h\" %5\n",
                "input %0 \"x\": f32[n, 1, 2]\n"
                "const %1: f32[64] = {" FOUR(1, 3, 5, 7) ", " FOUR(2, 4, 6, 8) "}\n"
                "const %2: f32[32] = {" FOUR(9, 10, 11, 12) "}\n"
                "const %3: f32[32] = {" FOUR(11, 22, 33, 44) "}\n"
                "%4, %5 = td::lstm_packed(%0, %1, %2, %3, -, -) {hidden = 1, panel = 8, directions = 1, "
                "reverse = true, batch_first = false, depth = 0}: f32[n, 1, 1, 1], f32[1, 1, 1]\n"
                "output \"y\" %4\noutput \"h\" %5\n",
                1);
  expect_change_at(level_of("avx2"), "recurrent",
                "input %0 \"x\": f32[n, 1, 1]\n"
                "input %1 \"h\": f32[1, 1, 1]\n"
                "const %2: f32[1, 3, 1] = {1, 2, 3}\n"
                "const %3: f32[1, 6] = {1, 2, 3, 10, 20, 30}\n"
                "%4 = td::gru(%0, %2, %2, %3, -, %1) {linear_before_reset = true}\n"
                "output \"y\" %4\n",
                "input %0 \"x\": f32[n, 1, 1]\n"
                "input %1 \"h\": f32[1, 1, 1]\n"
                "const %2: f32[24] = {" THREE(1, 2, 3) "}\n"
                "const %3: f32[24] = {" THREE(1, 2, 3) "}\n"
                "const %4: f32[32] = {" FOUR(11, 22, 3, 30) "}\n"
                "%5 = td::gru_packed(%0, %2, %3, %4, %1) {hidden = 1, panel = 8, directions = 1, reverse = false, "
                "batch_first = false, linear_before_reset = true}: f32[n, 1, 1, 1]\n"
                "output \"y\" %5\n",
                1);
  expect_change_at(level_of("avx2"), "recurrent", /* lengths are last */
                "input %0 \"x\": f32[n, 1, 1]\n"
                "input %1 \"l\": i64[1]\n"
                "const %2: f32[1, 3, 1] = {1, 2, 3}\n"
                "%3 = td::gru(%0, %2, %2, -, %1) {}\n"
                "output \"y\" %3\n",
                "input %0 \"x\": f32[n, 1, 1]\n"
                "input %1 \"l\": i64[1]\n"
                "const %2: f32[24] = {" THREE(1, 2, 3) "}\n"
                "const %3: f32[24] = {" THREE(1, 2, 3) "}\n"
                "%4 = td::gru_packed(%0, %2, %3, -, -, -, %1) {hidden = 1, panel = 8, directions = 1, reverse = false, "
                "batch_first = false, linear_before_reset = false}: f32[n, 1, 1, 1]\n"
                "output \"y\" %4\n",
                1);
}

/* The units of a plain layer stand where an LSTM has gates. */
#define UNITS(a, b) #a ", " #b ", 0, 0, 0, 0, 0, 0, " THREE(0, 0, 0)
static void recurrent_packs_plain_layers(void **state) {
  (void)state;
  expect_change_at(level_of("avx2"), "recurrent",
                "input %0 \"x\": f32[n, 1, 1]\n"
                "const %1: f32[1, 2, 1] = {1, 2}\n"
                "const %2: f32[1, 2, 2] = {3, 4, 5, 6}\n"
                "%3 = td::rnn(%0, %1, %2) {activations = \"Relu\"}\n"
                "output \"y\" %3\n",
                "input %0 \"x\": f32[n, 1, 1]\n"
                "const %1: f32[32] = {" UNITS(1, 2) "}\n"
                "const %2: f32[64] = {" UNITS(3, 5) ", " UNITS(4, 6) "}\n"
                "%3 = td::rnn_packed(%0, %1, %2, -, -) {hidden = 2, panel = 32, directions = 1, reverse = false, "
                "batch_first = false, relu = true}: f32[n, 1, 1, 2]\n"
                "output \"y\" %3\n",
                1);
}

/* Other activations, weights that are computed. */
static void recurrent_leaves_alone(void **state) {
  (void)state;
  static const char *const nodes[] = {"%0, %2, %2) {direction = \"forward\", activations = \"Relu,Tanh\"",
                                      "%0, %2, %1) {direction = \"forward\", activations = \"Sigmoid,Tanh\""};
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[n, 1, 1]\n"
             "input %%1 \"r\": f32[1, 3, 1]\n"
             "const %%2: f32[1, 3, 1] = {1, 2, 3}\n"
             "%%3 = td::gru(%s, alpha = [], beta = [], clip = 0, batch_first = false, input_forget = false, "
             "linear_before_reset = false, quantise_activations = false}: f32[n, 1, 1, 1]\n"
             "output \"y\" %%3\n",
             nodes[i]);
    expect_change_at(level_of("avx2"), "recurrent", text, text, 0);
  }
}

static void dead_removes(void **state) {
  (void)state;
  expect_change("dead",
                "input %0 \"x\": f32[2]\n"
                "input %1 \"c\": bool[]\n"
                "const %2: f32[] = {1}\n"
                "%3 = aten::add(%0, %2)\n"
                "%4 = aten::neg(%3)\n"
                "%5 = aten::exp(%0)\n"
                "%6 = aten::sin(%0)\n"
                "%7 = prim::If(%1): f32[2] {\n"
                "  block() {\n"
                "    %8 = aten::neg(%5)\n"
                "    yield %8\n"
                "  }\n"
                "  block() {\n"
                "    yield %5\n"
                "  }\n"
                "}\n"
                "%9 = prim::If(%1): f32[2] {\n"
                "  block() {\n"
                "    %10 = aten::cos(%6)\n"
                "    yield %6\n"
                "  }\n"
                "  block() {\n"
                "    yield %0\n"
                "  }\n"
                "}\n"
                "output \"y\" %9\n",
                "input %0 \"x\": f32[2]\n"
                "input %1 \"c\": bool[]\n"
                "%2 = aten::sin(%0): f32[2]\n"
                "%3 = prim::If(%1): f32[2] {\n"
                "  block() {\n"
                "    yield %2\n"
                "  }\n"
                "  block() {\n"
                "    yield %0\n"
                "  }\n"
                "}\n"
                "output \"y\" %3\n",
                5);
}

static void dead_keeps_what_nested_blocks_use(void **state) {
  (void)state;
  expect_same("dead",
              "input %0 \"n\": i64[]\n"
              "input %1 \"x\": f32[2]\n"
              "const %2: bool[] = {1}\n"
              "%3 = aten::exp(%1): f32[2]\n"
              "%4 = prim::Loop(%0, -, %1): f32[2] {\n"
              "  block(%5: i64[], %6: f32[2]) {\n"
              "    %7 = aten::mul(%6, %3): f32[2]\n"
              "    yield %2, %7\n"
              "  }\n"
              "}\n"
              "output \"y\" %4\n");
}

/* ---- all of them ---- */

static const char everything[] = NORM_INPUTS
    "%6 = aten::convolution(%0, %1)" CONV "\n"
    "%7 = " NORM("%6") "\n"
    "%8 = aten::add(%2, %3)\n"
    "%9 = aten::_to_copy(%7) {dtype = f32}\n"
    "%10 = aten::exp(%9)\n"
    "%11 = aten::exp(%7)\n"
    "%12 = aten::add(%10, %11)\n"
    "%13 = aten::cos(%12)\n"
    "output \"y\" %12\noutput \"z\" %8\n";

static uint32_t count_nodes(const ir_graph *graph) { return ir_block_of(graph, graph->top)->nodes.count; }

/* Each pass but those for kernels does something to this graph, its name turns it off, and no choice changes the
 * result. */
static void names_turn_them_off(void **state) {
  (void)state;
  rig all, r;
  uint32_t count;
  const passes_row *rows = passes_list(&count);
  rig_open(&all, everything, "aot_eager");
  rig_feed(&all, 0, TD_F32, "1x1x2x2: 1");
  rig_run(&all);
  assert_int_equal(count_nodes(all.graph), 3);
  for (uint32_t i = 0; i < count; i++) {
    if (rows[i].when != PASSES_ALWAYS) continue; /* has a test of its own */
    rig_open_without(&r, everything, "aot_eager", rows[i].name);
    assert_true(count_nodes(r.graph) > 3);
    rig_feed(&r, 0, TD_F32, "1x1x2x2: 1");
    rig_run(&r);
    for (uint32_t k = 0; k < 2; k++) {
      const base_tensor *a = rig_output(&all, k), *b = rig_output(&r, k);
      assert_int_equal(base_tensor_bytes(a), base_tensor_bytes(b));
      assert_memory_equal(a->data, b->data, base_tensor_bytes(a)); /* small powers of two: exact */
    }
    rig_close(&r);
  }
  rig_open_without(&r, everything, "aot_eager", "fold,identity,common,batchnorm,dead");
  assert_int_equal(count_nodes(r.graph), 8);
  rig_close(&r);
  rig_close(&all);
}

static void unknown_names_are_refused(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, everything, &base_libc_allocator);
  td_error err;
  uint32_t changes[PASSES_MAX];
  static const char *const wrong[] = {"folding", "fold,nothing", "fol", "fold, dead"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(passes_run(graph, &(passes_setting){.disabled = wrong[i]}, changes, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "fold, scales, forks")); /* the list of them all, the last one too */
  assert_non_null(strstr(err.text, "fuse, chain"));
  assert_int_equal(passes_run(graph, &(passes_setting){.disabled = ""}, changes, &err), TD_OK);
  ir_graph_free(graph);
  base_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(identity_removes),
      cmocka_unit_test(identity_takes_whole_slices),
      cmocka_unit_test(identity_leaves_alone),
      cmocka_unit_test(common_shares),
      cmocka_unit_test(common_compares_constants),
      cmocka_unit_test(common_leaves_alone),
      cmocka_unit_test(batchnorm_folds),
      cmocka_unit_test(batchnorm_leaves_alone),
      cmocka_unit_test(batchnorm_counts_uses_anew),
      cmocka_unit_test(batchnorm_of_rows_is_a_product),
      cmocka_unit_test(recurrent_packs),
      cmocka_unit_test(recurrent_packs_plain_layers),
      cmocka_unit_test(recurrent_leaves_alone),
      cmocka_unit_test(dead_removes),
      cmocka_unit_test(dead_keeps_what_nested_blocks_use),
      cmocka_unit_test(names_turn_them_off),
      cmocka_unit_test(unknown_names_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
