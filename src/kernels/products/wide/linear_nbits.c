/* linear_nbits.c -- KERN_LINEAR_NBITS: td::linear_nbits on f32. */
#include "kernels/products/gemm_priv.h"
#include "kernels/products/nbits_words_priv.h"

enum {
  STREAMS = 4, /* panels side by side: sums enough to hide their latency */
  AHEAD = 1024 /* bytes by which words are fetched ahead: so few streams keep memory busy then */
};

/* sums += x times `panels` panels of the part, from `first` on; missing ones are the last one again. */
V_TEMPLATE void multiply(const gemm_narrow *w, const gemm_part *part, const float *x, float *sums, const int bits,
                         const bool zeros) {
  const kern_nbits *l = w->layout;
  const decoder d = decoder_of(bits);
  for (int64_t first = 0; first < part->panels; first += STREAMS) {
    const uint8_t *words[STREAMS];
    int64_t panel[STREAMS];
    vf sum[STREAMS];
    V_FOR(p, STREAMS) {
      panel[p] = base_min_i64(first + p, part->panels - 1);
      words[p] = words_at(l, w->b, part->panel + panel[p], part->k0);
      sum[p] = v_load(sums + panel[p] * V_LANES);
    }
    for (int64_t k = part->k0; k < part->k1;) {
      const int64_t block = k / l->block, end = base_min_i64(part->k1, (block + 1) * l->block);
      block_numbers n[STREAMS];
      V_FOR(p, STREAMS) n[p] = numbers_of(l, w->b, &d, part->panel + panel[p], block, bits);
      for (; k < end;) {
        vi word[STREAMS];
        V_FOR(p, STREAMS) {
          word[p] = load_words(words[p], &d, bits);
          __builtin_prefetch(words[p] + AHEAD);
          words[p] += V_LANES * 4;
        }
        for (int round = bits; round <= 8; round += 4, k += BYTES) {
          V_OPAQUE(round); /* stays a loop */
          V_FOR(i, BYTES) {
            const vf a = v_set(x[k - part->k0 + i]);
            V_FOR(p, STREAMS) {
              const vf q = number(word[p], &d, (uint32_t)i * 8, bits);
              sum[p] = v_fma(a, v_mul(zeros ? v_sub(q, n[p].zero) : q, n[p].scale), sum[p]);
            }
          }
          V_FOR(p, STREAMS) word[p] = vi_shr(word[p], 4);
        }
      }
    }
    V_FOR(p, STREAMS) v_store(sums + panel[p] * V_LANES, sum[p]);
  }
}

static void multiply_4(const gemm_narrow *w, const gemm_part *part, const float *x, float *sums) {
  multiply(w, part, x, sums, 4, false);
}
static void multiply_4_zeros(const gemm_narrow *w, const gemm_part *part, const float *x, float *sums) {
  multiply(w, part, x, sums, 4, true);
}
static void multiply_8(const gemm_narrow *w, const gemm_part *part, const float *x, float *sums) {
  multiply(w, part, x, sums, 8, true);
}

V_TEMPLATE void widen(const gemm_narrow *w, const gemm_part *part, float *to, int64_t pitch, const int bits) {
  const kern_nbits *l = w->layout;
  const decoder d = decoder_of(bits);
  for (int64_t p = 0; p < part->panels; p++) {
    const uint8_t *words = words_at(l, w->b, part->panel + p, part->k0);
    float *out = to + p * pitch;
    for (int64_t k = part->k0; k < part->k1;) {
      const int64_t block = k / l->block, end = base_min_i64(part->k1, (block + 1) * l->block);
      const block_numbers n = numbers_of(l, w->b, &d, part->panel + p, block, bits);
      for (; k < end; words += V_LANES * 4) {
        vi word = load_words(words, &d, bits);
        for (int round = bits; round <= 8; round += 4, k += BYTES, out += BYTES * V_LANES) {
          V_FOR(i, BYTES) {
            v_store(out + i * V_LANES, v_mul(v_sub(number(word, &d, (uint32_t)i * 8, bits), n.zero), n.scale));
          }
          word = vi_shr(word, 4);
        }
      }
    }
  }
}

static void widen_4(const gemm_narrow *w, const gemm_part *part, float *to, int64_t pitch) {
  widen(w, part, to, pitch, 4);
}
static void widen_8(const gemm_narrow *w, const gemm_part *part, float *to, int64_t pitch) {
  widen(w, part, to, pitch, 8);
}

/* One row is read a word at a time: it gets zeros behind it. */
static bool pad_row(const base_call *call, gemm_product *g, int64_t step) {
  const int64_t padded = (g->k + step - 1) / step * step;
  if (g->m > 1 || padded == g->k) return true;
  float *row = base_call_scratch(call, (size_t)padded, sizeof *row);
  if (!row) return false;
  memset(row, 0, (size_t)padded * sizeof *row);
  memcpy(row, g->a, (size_t)g->k * sizeof *row);
  g->a = row;
  return true;
}

td_status KERN_NAME(linear_nbits)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  kern_nbits l;
  kern_epilogue e;
  TRY(KERN_NAME(epilogue_of)(call, &e));
  if (!kern_nbits_of(call->attrs, x->dims[x->rank - 1], &l))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::linear_nbits: rows of %lld elements",
                     (long long)x->dims[x->rank - 1]);
  gemm_narrow narrow = {.layout = &l,
                        .b = base_in(call, 1)->data,
                        .step = l.per,
                        .lines = (const uint8_t *)base_in(call, 1)->data + l.words_at,
                        .line_rows = l.per,
                        .panel_bytes = l.words * V_LANES * 4,
                        .widen = l.bits == 4 ? widen_4 : widen_8,
                        .multiply = l.bits == 8 ? multiply_8
                                    : l.zeros   ? multiply_4_zeros
                                                : multiply_4};
  gemm_product g = {.m = 1,
                    .n = l.n,
                    .k = l.k,
                    .a = x->data,
                    .a_pitch = kern_pitch(x),
                    .c = out->data,
                    .c_pitch = kern_pitch(out),
                    .narrow = &narrow,
                    .e = &e};
  for (int32_t i = 0; i < x->rank - 1; i++) g.m *= x->dims[i];
  if (g.m == 0 || g.n == 0) return TD_OK;
  gemm_grid grid = KERN_NAME(gemm_grid)(call, g.m, g.n, g.k);
  gemm_packed packed;
  if (!pad_row(call, &g, l.per) || !KERN_NAME(gemm_narrow_of)(call, &g, &grid) ||
      !KERN_NAME(gemm_packed_of)(call, &g, &grid, &packed))
    return base_no_memory(call->err, "scratch");
  const int64_t tasks = grid.row_chunks * grid.column_chunks;
  for (int64_t task = base_call_first(call, tasks); task < tasks; task = base_call_next(call, task, tasks))
    KERN_NAME(gemm_task)(&g, &grid, task);
  return TD_OK;
}
