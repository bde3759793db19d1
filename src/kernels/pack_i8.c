/* pack_i8.c -- weights of products of 8-bit integers, and their scales. */
#include "kernels/pack_i8.h"

#include <math.h>
#include <string.h>

bool kern_i8_layout_of(int64_t groups, int64_t n, int64_t k, int64_t panel, int64_t depth, kern_i8_layout *l) {
  const int64_t column = sizeof(int32_t) + sizeof(float);
  int64_t bytes;
  if (groups < 1 || n < 0 || n > INT32_MAX || k < 0 || k > KERN_I8_MAX_K || (panel != 8 && panel != 16) ||
      (depth != 2 && depth != 4))
    return false;
  *l = (kern_i8_layout){.groups = groups, .n = n, .k = k, .panel = panel, .depth = depth};
  l->group_panels = (n + panel - 1) / panel;
  l->steps = (k + depth - 1) / depth;
  l->panel_bytes = l->steps * depth * panel;
  return base_mul_i64(groups, l->group_panels * panel, &l->columns) && base_mul_i64(l->columns, column, &l->data) &&
         base_mul_i64(l->columns / panel, l->panel_bytes, &bytes) && !__builtin_add_overflow(bytes, l->data, &l->size);
}

static int64_t place(const kern_i8_layout *l, int64_t group, int64_t column, int64_t k) {
  const int64_t panel = group * l->group_panels + column / l->panel;
  return l->data + panel * l->panel_bytes + (k / l->depth * l->panel + column % l->panel) * l->depth + k % l->depth;
}

void kern_pack_i8(const kern_i8_layout *l, const int8_t *w, const float *scales, bool shared, uint8_t *to) {
  memset(to, 0, (size_t)l->size);
  for (int64_t g = 0; g < l->groups; g++)
    for (int64_t n = 0; n < l->n; n++, w += l->k) {
      const int64_t column = g * l->group_panels * l->panel + n;
      int32_t sum = 0;
      for (int64_t k = 0; k < l->k; k++) {
        to[place(l, g, n, k)] = (uint8_t)w[k];
        sum += w[k];
      }
      memcpy(to + column * (int64_t)sizeof sum, &sum, sizeof sum);
      memcpy(to + (l->columns + column) * (int64_t)sizeof sum, scales + (shared ? 0 : g * l->n + n), sizeof *scales);
    }
}

int8_t kern_i8_weight(const kern_i8_layout *l, const uint8_t *packed, int64_t group, int64_t column, int64_t k) {
  return (int8_t)packed[place(l, group, column, k)];
}

int64_t kern_i8_depth(const kern_row *row) { return row->isa & BASE_ISA_AVX512_VNNI ? 4 : 2; }

kern_i8_scales kern_i8_scales_of(const base_attrs *a) {
  const uint32_t at = a->count - KERN_EPILOGUE_ATTRS - KERN_I8_ATTRS;
  const bool is_signed = base_attr_int(a, at + KERN_I8_Y_SIGNED) != 0;
  return (kern_i8_scales){.panel = base_attr_int(a, at + KERN_I8_PANEL),
                          .depth = base_attr_int(a, at + KERN_I8_DEPTH),
                          .x_scale = (float)base_attr_float(a, at + KERN_I8_X_SCALE),
                          .x_zero = (float)base_attr_int(a, at + KERN_I8_X_ZERO),
                          .y_scale = (float)base_attr_float(a, at + KERN_I8_Y_SCALE),
                          .y_zero = (float)base_attr_int(a, at + KERN_I8_Y_ZERO),
                          .least = is_signed ? -128 : 0,
                          .most = is_signed ? 127 : 255};
}

void kern_i8_range(float low, float high, kern_i8_scales *s) {
  s->x_scale = (high - low) / 255;
  s->x_zero = s->x_scale > 0 ? nearbyintf(fminf(fmaxf(-low / s->x_scale, 0), 255)) : 0;
}
