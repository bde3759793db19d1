/* test_decoders.c -- com.microsoft's operators of language models, by what they mean: a cache of the window alone gives
 * what a whole one does; a state that is passed on gives what all rows at once do; a mixture gives what its experts
 * give one by one. And what of them is refused. */
#include <math.h>
#include <stdlib.h>

#include <treadle/treadle.h>

#include "import/onnx_build.h"

enum { MOST = 4096, INPUTS = 8, OUTPUTS = 3, I32 = 6, U8 = 2 };

static td_error err;

/* ---- models ---- */

static void put_text(base_text *attrs, const char *name, const char *value) {
  base_text a = message();
  fmt_put_str(&a, 1, name);
  fmt_put_str(&a, 4, value);
  fmt_put_int(&a, 20, 3);
  put(attrs, 5, &a);
}

static float number(uint32_t *seed) {
  *seed = *seed * 1664525 + 1013904223;
  return (float)(int32_t)*seed / 2147483648.0f;
}

static void fill(float *to, int64_t count, uint32_t seed) {
  for (int64_t i = 0; i < count; i++) to[i] = number(&seed);
}

static void put_floats_of(base_text *graph, const char *name, int32_t rank, const int64_t *dims, float scale,
                          uint32_t seed, float *kept) {
  int64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= dims[i];
  assert_true(count <= MOST);
  fill(kept, count, seed);
  for (int64_t i = 0; i < count; i++) kept[i] *= scale;
  put_raw(graph, name, 1, rank, dims, kept, (size_t)count * sizeof *kept);
}

static base_text node_model(base_text *graph, const char *op, const char *in, const char *out, base_text *attrs) {
  put_node_as(graph, 1, "com.microsoft", op, "node", in, out, attrs);
  for (const char *at = out; at;) {
    const char *comma = strchr(at, ',');
    char name[16] = "";
    memcpy(name, at, comma ? (size_t)(comma - at) : strlen(at));
    put_output(graph, name);
    at = comma ? comma + 1 : NULL;
  }
  base_text m = model_of(graph, NULL);
  put_opset(&m, 8, "com.microsoft", 1);
  return m;
}

/* ---- runs ---- */

typedef struct runner {
  td_model *model;
  td_session *session;
} runner;

static runner start(base_text *bytes, const char *backend) {
  const td_load_options options = {.size = sizeof options, .backend = backend};
  const td_session_options one = {.size = sizeof one, .threads = 1};
  runner r;
  if (td_model_load_memory(bytes->at, bytes->length, &options, &r.model, &err) != TD_OK)
    fail_msg("%s: %s", err.name, err.text);
  assert_int_equal(td_session_new(r.model, &one, &r.session, &err), TD_OK);
  return r;
}

static void stop(runner *r) {
  td_session_free(r->session);
  td_model_free(r->model);
}

static void give(runner *r, size_t input, td_dtype dtype, int32_t rank, const int64_t *dims, const void *data) {
  td_tensor t = {dtype, rank, {0}, (void *)(uintptr_t)data};
  for (int32_t i = 0; i < rank; i++) t.dims[i] = dims[i];
  if (td_session_set_input(r->session, input, &t, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
}

static void run(runner *r) {
  if (td_session_run(r->session, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
}

/* The elements of an output; *count of them. */
static const float *result(runner *r, size_t output, int64_t *count) {
  td_tensor t;
  assert_int_equal(td_session_output(r->session, output, &t, &err), TD_OK);
  *count = 1;
  for (int32_t i = 0; i < t.rank; i++) *count *= t.dims[i];
  assert_true(*count <= MOST);
  return t.data;
}

static void expect_within(const float *got, const float *want, int64_t count, float atol, const char *what) {
  for (int64_t i = 0; i < count; i++)
    if (!(fabsf(got[i] - want[i]) <= atol + 1e-4f * fabsf(want[i])))
      fail_msg("%s: element %lld is %g, not %g", what, (long long)i, (double)got[i], (double)want[i]);
}
static void expect_near(const float *got, const float *want, int64_t count, const char *what) {
  expect_within(got, want, count, 1e-5f, what);
}

/* ---- a cache of the window ---- */

enum { HEADS = 4, KV_HEADS = 2, SIZE = 16, WINDOW = 4, WIDTH = (HEADS + 2 * KV_HEADS) * SIZE, PLACES = 64 };

static base_text attention(bool windowed) {
  static float cosine[PLACES * SIZE / 2], sine[PLACES * SIZE / 2];
  base_text g = message(), attrs = message();
  const int64_t table[] = {PLACES, SIZE / 2};
  put_input(&g, "qkv", DIMS(-2, -1, WIDTH));
  put_input(&g, "pk", DIMS(-2, KV_HEADS, -1, SIZE));
  put_input(&g, "pv", DIMS(-2, KV_HEADS, -1, SIZE));
  put_value_as(&g, 11, "last", I32, DIMS(-2));
  put_value_as(&g, 11, "total", I32, DIMS(1));
  put_floats_of(&g, "cos", 2, table, 1, 1, cosine);
  put_floats_of(&g, "sin", 2, table, 1, 2, sine);
  put_attr_int(&attrs, "num_heads", HEADS);
  put_attr_int(&attrs, "kv_num_heads", KV_HEADS);
  put_attr_int(&attrs, "do_rotary", 1);
  put_attr_int(&attrs, "local_window_size", WINDOW);
  if (windowed) put_attr_int(&attrs, "sliding_window_cache", 1);
  return node_model(&g, "GroupQueryAttention", "qkv,,,pk,pv,last,total,cos,sin", "y,k,v", &attrs);
}

typedef struct cache {
  float k[MOST], v[MOST];
  int64_t rows;
} cache;

/* A step of `rows` rows behind `used`; y stays with the session, present rows become past ones. */
static const float *attend(runner *r, cache *c, const float *x, int64_t rows, int64_t used, int64_t *count) {
  const int64_t past[] = {1, KV_HEADS, c->rows, SIZE}, in[] = {1, rows, WIDTH}, one[] = {1};
  const int32_t total = (int32_t)(used + rows), last = total - 1;
  int64_t present;
  give(r, 0, TD_F32, 3, in, x);
  give(r, 1, TD_F32, 4, past, c->k);
  give(r, 2, TD_F32, 4, past, c->v);
  give(r, 3, TD_I32, 1, one, &last);
  give(r, 4, TD_I32, 1, one, &total);
  run(r);
  const float *k = result(r, 1, &present), *v = result(r, 2, &present);
  memmove(c->k, k, sizeof(float) * (size_t)present);
  memmove(c->v, v, sizeof(float) * (size_t)present);
  c->rows = present / KV_HEADS / SIZE;
  return result(r, 0, count);
}

static void a_window_stands_for_the_cache(void **state) {
  (void)state;
  static const int64_t capacities[] = {WINDOW, WINDOW + 1, WINDOW + 5}, steps[] = {1, 2, 1, 1, 7, 1, 1, 3, 1, 12, 1, 1};
  base_text models[] = {attention(false), attention(true)};
  for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
    runner whole = start(&models[0], "native"), window = start(&models[1], i ? "native" : "eager");
    cache *all = calloc(1, sizeof *all), *kept = calloc(1, sizeof *kept);
    float x[MOST];
    int64_t used = 0, count, other;
    kept->rows = capacities[i];
    for (size_t s = 0; s < sizeof steps / sizeof *steps; used += steps[s++]) {
      fill(x, steps[s] * WIDTH, (uint32_t)s);
      const float *want = attend(&whole, all, x, steps[s], used, &count);
      expect_near(attend(&window, kept, x, steps[s], used, &other), want, count, "attention over a window");
      assert_int_equal(count, other);
      assert_int_equal(kept->rows, capacities[i]);
    }
    free(all);
    free(kept);
    stop(&whole);
    stop(&window);
  }
  for (int i = 0; i < 2; i++) base_text_free(&models[i]);
}

/* ---- states ---- */

enum { CHANNELS = 6, TAPS = 4, ROWS = 7 };

static base_text convolution(bool rows_first) {
  static float w[MOST], b[MOST];
  base_text g = message(), attrs = message();
  put_input(&g, "x", 3, rows_first ? (int64_t[]){-2, -1, CHANNELS} : (int64_t[]){-2, CHANNELS, -1});
  put_input(&g, "past", 3,
            rows_first ? (int64_t[]){-2, 2 * (TAPS - 1), CHANNELS} : (int64_t[]){-2, CHANNELS, 2 * (TAPS - 1)});
  put_floats_of(&g, "w", 3, (int64_t[]){CHANNELS, 1, TAPS}, 1, 3, w);
  put_floats_of(&g, "b", 1, (int64_t[]){CHANNELS}, 1, 4, b);
  put_attr_int(&attrs, "dilation", 2);
  if (rows_first) put_attr_int(&attrs, "channels_last", 1);
  put_text(&attrs, "activation", "silu");
  return node_model(&g, "CausalConvWithState", "x,w,b,past", "y,state", &attrs);
}

/* All rows, and one after the other with the state passed on. */
static void a_state_stands_for_rows(void **state) {
  (void)state;
  base_text model = convolution(true);
  runner whole = start(&model, "native"), single = start(&model, "native");
  float x[ROWS * CHANNELS], past[2 * (TAPS - 1) * CHANNELS] = {0}, want[MOST];
  const int64_t before[] = {1, 2 * (TAPS - 1), CHANNELS};
  int64_t count;
  fill(x, ROWS * CHANNELS, 5);
  give(&whole, 0, TD_F32, 3, (int64_t[]){1, ROWS, CHANNELS}, x);
  give(&whole, 1, TD_F32, 3, before, past);
  run(&whole);
  memcpy(want, result(&whole, 0, &count), sizeof(float) * ROWS * CHANNELS);
  assert_int_equal(count, ROWS * CHANNELS);
  for (int64_t i = 0; i < ROWS; i++) {
    give(&single, 0, TD_F32, 3, (int64_t[]){1, 1, CHANNELS}, x + i * CHANNELS);
    give(&single, 1, TD_F32, 3, before, past);
    run(&single);
    expect_near(result(&single, 0, &count), want + i * CHANNELS, CHANNELS, "a convolution row by row");
    const float *next = result(&single, 1, &count);
    memmove(past, next, sizeof past);
  }
  stop(&whole);
  stop(&single);
  base_text_free(&model);
}

/* A tap by hand: position t reads t - (TAPS - 1 - j) * 2. */
static void channels_second_are_convolved(void **state) {
  (void)state;
  base_text model = convolution(false);
  runner r = start(&model, "native");
  float x[CHANNELS * ROWS], past[CHANNELS * 2 * (TAPS - 1)], w[CHANNELS * TAPS], b[CHANNELS], want[CHANNELS * ROWS];
  int64_t count;
  fill(x, CHANNELS * ROWS, 6);
  fill(past, CHANNELS * 2 * (TAPS - 1), 7);
  fill(w, CHANNELS * TAPS, 3);
  fill(b, CHANNELS, 4);
  for (int64_t c = 0; c < CHANNELS; c++)
    for (int64_t t = 0; t < ROWS; t++) {
      float sum = b[c];
      for (int64_t j = 0; j < TAPS; j++) {
        const int64_t at = t - (TAPS - 1 - j) * 2;
        sum += w[c * TAPS + j] * (at < 0 ? past[(c + 1) * 2 * (TAPS - 1) + at] : x[c * ROWS + at]);
      }
      want[c * ROWS + t] = sum / (1 + expf(-sum));
    }
  give(&r, 0, TD_F32, 3, (int64_t[]){1, CHANNELS, ROWS}, x);
  give(&r, 1, TD_F32, 3, (int64_t[]){1, CHANNELS, 2 * (TAPS - 1)}, past);
  run(&r);
  expect_near(result(&r, 0, &count), want, CHANNELS * ROWS, "a causal convolution");
  stop(&r);
  base_text_free(&model);
}

/* The gated delta rule with its gate: two heads share a key and a query. */
static void linear_attention_with_its_gate(void **state) {
  (void)state;
  enum { KEYS = 4, VALUES = 3, H = 2 };
  static const float bias[] = {0.5f, -0.25f}, scale[] = {-0.5f, -1.5f};
  base_text g = message(), attrs = message();
  put_input(&g, "q", DIMS(1, ROWS, KEYS));
  put_input(&g, "k", DIMS(1, ROWS, KEYS));
  put_input(&g, "v", DIMS(1, ROWS, H * VALUES));
  put_input(&g, "a", DIMS(1, ROWS, H));
  put_input(&g, "b", DIMS(1, ROWS, H));
  put_floats(&g, "bias", 2, bias);
  put_floats(&g, "scale", 2, scale);
  put_node_as(&g, 1, "com.microsoft", "LinearAttentionGate", "gate", "a,bias,scale,b", "decay,beta", NULL);
  put_attr_int(&attrs, "q_num_heads", 1);
  put_attr_int(&attrs, "kv_num_heads", H);
  base_text model = node_model(&g, "LinearAttention", "q,k,v,,decay,beta", "y,state", &attrs);
  runner r = start(&model, "native");
  float q[ROWS * KEYS], k[ROWS * KEYS], v[ROWS * H * VALUES], a[ROWS * H], b[ROWS * H], s[H][KEYS][VALUES] = {{{0}}};
  float want[ROWS * H * VALUES];
  int64_t count;
  fill(q, ROWS * KEYS, 8), fill(k, ROWS * KEYS, 9), fill(v, ROWS * H * VALUES, 10), fill(a, ROWS * H, 11);
  fill(b, ROWS * H, 12);
  for (int64_t t = 0; t < ROWS; t++)
    for (int64_t h = 0; h < H; h++) {
      const float keep = expf(scale[h] * log1pf(expf(a[t * H + h] + bias[h]))), beta = 1 / (1 + expf(-b[t * H + h]));
      for (int64_t j = 0; j < VALUES; j++) {
        float met = 0, y = 0;
        for (int64_t i = 0; i < KEYS; i++) met += (s[h][i][j] *= keep) * k[t * KEYS + i];
        for (int64_t i = 0; i < KEYS; i++) {
          s[h][i][j] += k[t * KEYS + i] * beta * (v[(t * H + h) * VALUES + j] - met);
          y += q[t * KEYS + i] * s[h][i][j] / 2;
        }
        want[(t * H + h) * VALUES + j] = y;
      }
    }
  const int64_t keys[] = {1, ROWS, KEYS}, values[] = {1, ROWS, H * VALUES}, gates[] = {1, ROWS, H};
  give(&r, 0, TD_F32, 3, keys, q), give(&r, 1, TD_F32, 3, keys, k), give(&r, 2, TD_F32, 3, values, v);
  give(&r, 3, TD_F32, 3, gates, a), give(&r, 4, TD_F32, 3, gates, b);
  run(&r);
  expect_near(result(&r, 0, &count), want, ROWS * H * VALUES, "linear attention");
  expect_near(result(&r, 1, &count), s[0][0], H * KEYS * VALUES, "its state");
  stop(&r);
  base_text_free(&model);
}

static void gated_norms_and_sums(void **state) {
  (void)state;
  enum { GROUP = 4, ALL = 8 };
  static const float scale[GROUP] = {1, -2, 0.5f, 3};
  base_text g = message(), eps = message();
  put_input(&g, "x", DIMS(2, ALL));
  put_input(&g, "gate", DIMS(2, ALL));
  put_input(&g, "row", DIMS(2, 1));
  put_floats(&g, "scale", GROUP, scale);
  put_attr_float(&eps, "epsilon", 0.5f);
  put_node_as(&g, 1, "com.microsoft", "GatedRMSNorm", "norm", "x,scale,gate", "normed", &eps);
  base_text model = node_model(&g, "GatedAdd", "x,normed,row", "y", NULL);
  runner r = start(&model, "native");
  float x[2 * ALL], gate[2 * ALL], row[2] = {0.25f, -3}, want[2 * ALL];
  int64_t count;
  fill(x, 2 * ALL, 13), fill(gate, 2 * ALL, 14);
  for (int64_t i = 0; i < 2 * ALL; i++) {
    float squares = 0;
    for (int64_t j = 0; j < GROUP; j++) squares += x[i / GROUP * GROUP + j] * x[i / GROUP * GROUP + j];
    want[i] =
        x[i] + row[i / ALL] * x[i] / sqrtf(squares / GROUP + 0.5f) * scale[i % GROUP] * gate[i] / (1 + expf(-gate[i]));
  }
  give(&r, 0, TD_F32, 2, (int64_t[]){2, ALL}, x), give(&r, 1, TD_F32, 2, (int64_t[]){2, ALL}, gate);
  give(&r, 2, TD_F32, 2, (int64_t[]){2, 1}, row);
  run(&r);
  expect_near(result(&r, 0, &count), want, 2 * ALL, "a gated norm and sum");
  stop(&r);
  base_text_free(&model);
}

/* ---- mixtures of experts ---- */

enum { EXPERTS = 3, CHOSEN = 2, HIDDEN = 32, INNER = 32, TOKENS = 5 };
static const float alpha = 1.5f, beta = 0.5f, limit = 0.75f;

typedef struct experts {
  float up[EXPERTS][2 * INNER][HIDDEN], up_bias[EXPERTS][2 * INNER], down[EXPERTS][HIDDEN][INNER],
      down_bias[EXPERTS][HIDDEN];
} experts;

/* y += weight * expert(x) */
static void add_expert(const experts *w, int e, const float *x, float weight, float *y) {
  float both[2 * INNER], h[INNER];
  for (int i = 0; i < 2 * INNER; i++) {
    both[i] = w->up_bias[e][i];
    for (int j = 0; j < HIDDEN; j++) both[i] += w->up[e][i][j] * x[j];
  }
  for (int i = 0; i < INNER; i++) {
    const float gate = fminf(both[2 * i], limit), linear = fmaxf(-limit, fminf(both[2 * i + 1], limit));
    h[i] = gate / (1 + expf(-alpha * gate)) * (linear + beta);
  }
  for (int i = 0; i < HIDDEN; i++) {
    float sum = w->down_bias[e][i];
    for (int j = 0; j < INNER; j++) sum += w->down[e][i][j] * h[j];
    y[i] += weight * sum;
  }
}

/* The weights of the best CHOSEN of a token's logits, normalised; the last expert has none. */
static void mix(const experts *w, const float *x, const float *logits, float *y) {
  int least = 0;
  for (int e = 1; e < EXPERTS; e++)
    if (logits[e] < logits[least]) least = e;
  float sum = 0;
  for (int e = 0; e < EXPERTS; e++) sum += e == least ? 0 : expf(logits[e]);
  memset(y, 0, HIDDEN * sizeof *y);
  for (int e = 0; e < EXPERTS; e++)
    if (e != least) add_expert(w, e, x, expf(logits[e]) / sum, y);
}

static void put_mixture_attrs(base_text *attrs) {
  put_attr_int(attrs, "k", CHOSEN);
  put_attr_int(attrs, "swiglu_fusion", 1);
  put_attr_int(attrs, "normalize_routing_weights", 1);
  put_text(attrs, "activation_type", "swiglu");
  put_attr_float(attrs, "activation_alpha", alpha);
  put_attr_float(attrs, "activation_beta", beta);
  put_attr_float(attrs, "swiglu_limit", limit);
}

/* `atol`: 4 bits may meet whole numbers of 16 bits. */
static void expect_mixture(base_text *model, const experts *w, float atol) {
  static const char *const backends[] = {"eager", "native"};
  for (int b = 0; b < 2; b++) {
    runner r = start(model, backends[b]);
    float x[TOKENS * HIDDEN], logits[TOKENS * EXPERTS], want[TOKENS * HIDDEN];
    int64_t count;
    fill(x, TOKENS * HIDDEN, 20), fill(logits, TOKENS * EXPERTS, 21);
    for (int t = 0; t < TOKENS; t++) mix(w, x + t * HIDDEN, logits + t * EXPERTS, want + t * HIDDEN);
    give(&r, 0, TD_F32, 3, (int64_t[]){1, TOKENS, HIDDEN}, x);
    give(&r, 1, TD_F32, 2, (int64_t[]){TOKENS, EXPERTS}, logits);
    run(&r);
    expect_within(result(&r, 0, &count), want, TOKENS * HIDDEN, atol, backends[b]);
    stop(&r);
  }
  base_text_free(model);
}

static void put_mixture_inputs(base_text *g) {
  put_input(g, "x", DIMS(-2, -1, HIDDEN));
  put_input(g, "router", DIMS(-3, EXPERTS));
}

static void a_mixture_is_its_experts(void **state) {
  (void)state;
  static experts w;
  base_text g = message(), attrs = message();
  put_mixture_inputs(&g);
  fill(w.up[0][0], sizeof w.up / sizeof(float), 22), fill(w.up_bias[0], sizeof w.up_bias / sizeof(float), 23);
  fill(w.down[0][0], sizeof w.down / sizeof(float), 24), fill(w.down_bias[0], sizeof w.down_bias / sizeof(float), 25);
  put_raw(&g, "up", 1, DIMS(EXPERTS, 2 * INNER, HIDDEN), w.up, sizeof w.up);
  put_raw(&g, "upb", 1, DIMS(EXPERTS, 2 * INNER), w.up_bias, sizeof w.up_bias);
  put_raw(&g, "down", 1, DIMS(EXPERTS, HIDDEN, INNER), w.down, sizeof w.down);
  put_raw(&g, "downb", 1, DIMS(EXPERTS, HIDDEN), w.down_bias, sizeof w.down_bias);
  put_mixture_attrs(&attrs);
  base_text model = node_model(&g, "MoE", "x,router,up,upb,down,downb", "y", &attrs);
  expect_mixture(&model, &w, 1e-5f);
}

/* Numbers of 4 bits and scales for `count` blocks of `block`; *values: what they stand for. Without a block a row of 32
 * is one. */
static void quantise(uint32_t seed, int64_t count, int64_t block, uint8_t *bytes, float *scales, float *values) {
  for (int64_t i = 0; i < count * block; i++) {
    const int q = (int)((number(&seed) + 1) * 7.99f);
    if (i % block == 0) scales[i / block] = (number(&seed) + 1.5f) / 32;
    if (i % 2) bytes[i / 2] = (uint8_t)(bytes[i / 2] | q << 4);
    else bytes[i / 2] = (uint8_t)q;
    values[i] = (float)(q - 8) * scales[i / block];
  }
}

static void weights_of_4_bits(int64_t block, bool stated) {
  static experts w;
  static uint8_t up[sizeof w.up / 8], down[sizeof w.down / 8];
  static float up_scales[EXPERTS * 2 * INNER * 2], down_scales[EXPERTS * HIDDEN * 2];
  base_text g = message(), attrs = message();
  put_mixture_inputs(&g);
  fill(w.up_bias[0], sizeof w.up_bias / sizeof(float), 23),
      fill(w.down_bias[0], sizeof w.down_bias / sizeof(float), 25);
  const int64_t blocks = HIDDEN / block, ups = EXPERTS * 2 * INNER * blocks, downs = EXPERTS * HIDDEN * blocks;
  quantise(26, ups, block, up, up_scales, w.up[0][0]);
  quantise(27, downs, block, down, down_scales, w.down[0][0]);
  put_raw(&g, "up", U8, DIMS(EXPERTS, 2 * INNER, HIDDEN / 2), up, sizeof up);
  put_raw(&g, "ups", 1, stated ? 3 : 2, (int64_t[]){EXPERTS, 2 * INNER, blocks}, up_scales, (size_t)ups * 4);
  put_raw(&g, "upb", 1, DIMS(EXPERTS, 2 * INNER), w.up_bias, sizeof w.up_bias);
  put_raw(&g, "down", U8, DIMS(EXPERTS, HIDDEN, INNER / 2), down, sizeof down);
  put_raw(&g, "downs", 1, stated ? 3 : 2, (int64_t[]){EXPERTS, HIDDEN, blocks}, down_scales, (size_t)downs * 4);
  put_raw(&g, "downb", 1, DIMS(EXPERTS, HIDDEN), w.down_bias, sizeof w.down_bias);
  put_mixture_attrs(&attrs);
  put_attr_int(&attrs, "expert_weight_bits", 4);
  if (stated) put_attr_int(&attrs, "block_size", block);
  base_text model = node_model(&g, "QMoE", "x,router,up,ups,upb,down,downs,downb", "y", &attrs);
  expect_mixture(&model, &w, 1e-4f);
}

static void a_mixture_of_4_bits(void **state) {
  (void)state;
  weights_of_4_bits(16, true);
  weights_of_4_bits(32, true);
  weights_of_4_bits(32, false); /* a scale per row */
}

/* ---- positions and codes ---- */

/* Of 4 angles the first two are of time, then one each of height and width; interleaved time, height, width, time. */
static void three_positions(void **state) {
  (void)state;
  enum { HALF = 4, PLACES_OF = 8 };
  static const int64_t streams[2][HALF] = {{0, 0, 1, 2}, {0, 1, 2, 0}}, sections[] = {2, 1, 1};
  for (int64_t layout = 0; layout < 2; layout++) {
    base_text g = message(), attrs = message(), ints = message();
    float cosine[MOST], sine[MOST], x[2 * 2 * HALF], want[2 * 2 * HALF];
    const int64_t table[] = {PLACES_OF, HALF}, positions[] = {0, 5, 3, 1, 7, 2};
    put_input(&g, "x", DIMS(1, 1, 2, 2 * HALF));
    put_value_as(&g, 11, "positions", 7, DIMS(3, 1, 2));
    put_floats_of(&g, "cos", 2, table, 1, 30, cosine);
    put_floats_of(&g, "sin", 2, table, 1, 31, sine);
    fmt_put_str(&ints, 1, "mrope_section");
    for (int i = 0; i < 3; i++) fmt_put_int(&ints, 8, sections[i]);
    fmt_put_int(&ints, 20, 7);
    put(&attrs, 5, &ints);
    put_attr_int(&attrs, "mrope_layout", layout);
    base_text model = node_model(&g, "MRotaryEmbedding", "x,positions,cos,sin", "y", &attrs);
    runner r = start(&model, "native");
    int64_t count;
    fill(x, 2 * 2 * HALF, 32);
    for (int64_t row = 0; row < 2; row++)
      for (int64_t i = 0; i < HALF; i++) {
        const int64_t at = positions[streams[layout][i] * 2 + row] * HALF + i, a = row * 2 * HALF + i, b = a + HALF;
        want[a] = x[a] * cosine[at] - x[b] * sine[at];
        want[b] = x[a] * sine[at] + x[b] * cosine[at];
      }
    give(&r, 0, TD_F32, 4, (int64_t[]){1, 1, 2, 2 * HALF}, x);
    give(&r, 1, TD_I64, 3, (int64_t[]){3, 1, 2}, positions);
    run(&r);
    expect_near(result(&r, 0, &count), want, 2 * 2 * HALF, "three positions");
    stop(&r);
    base_text_free(&model);
  }
}

/* Codes 15, 7, 0 of NF4 are 1, 0 and -1; of FP4 codes 3, 12, 5 are 1, -1/3 and 1/2. 3 columns of 3 have a spare half.
 */
static void codes_of_4_bits(void **state) {
  (void)state;
  static const uint8_t codes[2][5] = {{0xf7, 0x07, 0xf0, 0xf7, 0x00}, {0x3c, 0x53, 0xc5, 0x33, 0x50}};
  static const float values[2][9] = {{1, 0, -1, 0, 1, -1, 1, 0, -1},
                                     {1, -1 / 3.0f, 0.5f, 1, -1 / 3.0f, 0.5f, 1, 1, 0.5f}};
  static const float most[] = {2}, a[] = {1, 10, 100};
  for (int64_t type = 0; type < 2; type++) {
    base_text g = message(), attrs = message();
    float want[3] = {0};
    int64_t count;
    put_input(&g, "a", DIMS(1, 3));
    put_raw(&g, "b", U8, DIMS(5), codes[!type], 5);
    put_floats(&g, "most", 1, most);
    put_attr_int(&attrs, "N", 3);
    put_attr_int(&attrs, "K", 3);
    put_attr_int(&attrs, "block_size", 16);
    put_attr_int(&attrs, "quant_type", type);
    base_text model = node_model(&g, "MatMulBnb4", "a,b,most", "y", &attrs);
    runner r = start(&model, "native");
    for (int i = 0; i < 9; i++) want[i / 3] += a[i % 3] * values[!type][i] * most[0];
    give(&r, 0, TD_F32, 2, (int64_t[]){1, 3}, a);
    run(&r);
    expect_near(result(&r, 0, &count), want, 3, "codes of 4 bits");
    stop(&r);
    base_text_free(&model);
  }
}

/* ---- what is refused ---- */

static void expect_refused(const char *op, const char *in, const char *attr, int64_t value, const char *what) {
  base_text g = message(), attrs = message();
  put_input(&g, "a", DIMS(1, 2, 16));
  put_input(&g, "b", DIMS(1));
  put_attr_int(&attrs, attr, value);
  base_text model = node_model(&g, op, in, "y", &attrs);
  expect_error(&model, TD_UNSUPPORTED, "net.onnx", what);
}

static void what_is_not_there_is_refused(void **state) {
  (void)state;
  expect_refused("GroupQueryAttention", "a,,,,,b,b", "causal", 0, "causal");
  expect_refused("GroupQueryAttention", "a,,,,,b,b", "qk_output", 1, "qk_output");
  expect_refused("GroupQueryAttention", "a,,,,,b,b,,,,,,,b", "causal", 1, "quantised caches");
  expect_refused("CausalConvWithState", "a,a", "state_window", 2, "state_window");
  expect_refused("CausalConvWithState", "a,a", "ndim", 2, "ndim");
  expect_refused("LinearAttention", "a,a,a", "state_window", 2, "state_window");
  expect_refused("MoE", "a,b,a,,a", "k", 1, "not constant");
}

static void memory_may_lack(void **state) {
  (void)state;
  base_text models[] = {attention(true), convolution(true)};
  for (int i = 0; i < 2; i++) import_without_memory(&models[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_window_stands_for_the_cache),
      cmocka_unit_test(a_state_stands_for_rows),
      cmocka_unit_test(channels_second_are_convolved),
      cmocka_unit_test(linear_attention_with_its_gate),
      cmocka_unit_test(gated_norms_and_sums),
      cmocka_unit_test(a_mixture_is_its_experts),
      cmocka_unit_test(a_mixture_of_4_bits),
      cmocka_unit_test(what_is_not_there_is_refused),
      cmocka_unit_test(memory_may_lack),
      cmocka_unit_test(three_positions),
      cmocka_unit_test(codes_of_4_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
