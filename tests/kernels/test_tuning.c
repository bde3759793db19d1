/* kern_tuning: the table, its text, and that no number changes a bit of a product. */
#include "kernels/run_kernel.h"

#include <stdio.h>

#include "kernels/products/pack.h"
#include "kernels/tuning.h"

static void texts_set_numbers(void **state) {
  (void)state;
  kern_tuning t = kern_tuning_for("", 0, 0);
  td_error err;
  assert_int_equal(kern_tuning_set(&t, "", &err), TD_OK);
  assert_int_equal(kern_tuning_set(&t, "block_k=512,product_panels=2", &err), TD_OK);
  assert_int_equal(t.block_k, 512);
  assert_int_equal(t.product_panels, 2);
  const char *const bad[] = {"block_k", "block_k=", "block_k=5", "block_k=-1", "block=512", "=", ",", "block_k=512 "};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(kern_tuning_set(&t, bad[i], &err), TD_BAD_ARGUMENT);
}

static void every_number_is_one_of_its_candidates(void **state) {
  (void)state;
  const struct {
    const char *vendor;
    uint32_t family;
  } cpus[] = {{"", 0}, {"GenuineIntel", 6}, {"AuthenticAMD", 25}};
  uint32_t count;
  const kern_tuning_row *rows = kern_tuning_rows(&count);
  for (size_t c = 0; c < sizeof cpus / sizeof *cpus; c++)
    for (uint32_t i = 0; i < count; i++) {
      kern_tuning t = kern_tuning_for(cpus[c].vendor, cpus[c].family, 1);
      int64_t value;
      char text[64];
      td_error err;
      memcpy(&value, (const char *)&t + rows[i].at, sizeof value);
      snprintf(text, sizeof text, "%s=%lld", rows[i].name, (long long)value);
      if (kern_tuning_set(&t, text, &err) != TD_OK) fail_msg("%s", err.text);
    }
}

/* What the table says of a CPU is what the model of speed has. */
static void speeds_follow(void **state) {
  (void)state;
  kern_tuning t = kern_tuning_for("", 0, 0);
  const base_speed unknown = kern_speed(NULL), first = kern_speed(&t);
  td_error err;
  assert_memory_equal(&unknown, &base_speed_default, sizeof unknown);
  assert_memory_equal(&first, &base_speed_default, sizeof first);
  assert_int_equal(kern_tuning_set(&t, "far_per_ns=24,hand_over_ns=2000,thread_ns=16000", &err), TD_OK);
  const base_speed other = kern_speed(&t);
  assert_true(other.far_per_ns == 24 && other.hand_over_ns == 2000 && other.thread_ns == 16000);
  assert_true(other.near_per_ns == base_speed_default.near_per_ns);
}

/* A product of several blocks of k, groups and chunks, under every candidate of every number. */
static void no_number_changes_a_bit(void **state) {
  (void)state;
  enum { M = 75, K = 1700, N = 200 };
  uint32_t levels, count;
  const kern_tuning_row *rows = kern_tuning_rows(&count);
  kern_levels(&levels);
  for (uint32_t level = 0; level < levels; level++) {
    const kern_row *row = run_row(KERN_LINEAR, level);
    if (!row) continue;
    base_arena *arena = base_arena_new(&base_libc_allocator);
    const base_arg args[] = {ARG_BOOL("trans_w", 0),  ARG_INT("n", N),           ARG_INT("panel", row->lanes),
                             ARG_BOOL("strassen", 0), ARG_STR("act", "relu"),    ARG_FLOAT("act_a", 0),
                             ARG_FLOAT("act_b", 0),   ARG_BOOL("act_late", 0),   {.name = "result"},
                             ARG_BOOL("in_front", 0), ARG_INTS("chain", NULL, 0)};
    const int64_t x_dims[] = {M, K}, y_dims[] = {M, N};
    size_t size;
    assert_true(kern_pack_count(K, N, row->lanes, &size));
    const int64_t packed_dims[] = {(int64_t)size};
    float *x = run_floats(M * K, 1), *w = run_floats(K * N, 2), *packed = run_floats(packed_dims[0], 3);
    float *y = run_floats(M * N, 4), *first = run_floats(M * N, 5);
    kern_pack(packed, &(kern_matrix){w, K, N, N, 1}, NULL, row->lanes, 0, (N + row->lanes - 1) / row->lanes);
    run_kernel k = {.row = row,
                    .attrs = base_attrs_make(arena, args, sizeof args / sizeof *args),
                    .out = base_tensor_of(first, TD_F32, 2, y_dims)};
    k.in[0] = base_tensor_of(x, TD_F32, 2, x_dims);
    k.in[1] = base_tensor_of(packed, TD_F32, 1, packed_dims);
    run_kernel_on(&k, 1);
    k.out.data = y;
    for (uint32_t i = 0; i < count; i++)
      for (const char *at = rows[i].candidates; *at; at += strcspn(at, " "), at += *at == ' ') {
        kern_tuning t = kern_tuning_for("", 0, 0);
        const int64_t value = strtoll(at, NULL, 10);
        memcpy((char *)&t + rows[i].at, &value, sizeof value);
        k.tuning = &t;
        memset(y, 0, M * N * sizeof *y);
        run_kernel_on(&k, 1);
        if (memcmp((const void *)y, (const void *)first, M * N * sizeof *y) != 0)
          fail_msg("%s: %s=%lld", row->name, rows[i].name, (long long)value);
      }
    float *const owned[] = {x, w, packed, y, first};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    base_arena_free(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts_set_numbers),
                                     cmocka_unit_test(every_number_is_one_of_its_candidates),
                                     cmocka_unit_test(speeds_follow), cmocka_unit_test(no_number_changes_a_bit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
