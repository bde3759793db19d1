/* test_tuned.c -- no number of td_tuning_at, set to any of its candidates, changes a bit of what layers answer. */
#include "api/artifact.h"

/* One of each kind of layer that the numbers reach, with panels left over, and several blocks of k, groups and chunks
 * of rows where that is cheap. */
static const char *const layers[] = {
    "builtin:layer:linear 37x1100 out=330",           "builtin:layer:linear 1x300 out=200",
    "builtin:layer:conv 1x72x9x9 out=150 kernel=1",   "builtin:layer:conv 1x24x13x11 out=110 kernel=3 stride=2",
    "builtin:layer:conv 1x64x14x14 out=120 kernel=3", "builtin:layer:conv 1x32x12x12 out=32 kernel=5 group=32",
};
enum { LAYERS = sizeof layers / sizeof *layers };

static uint64_t answer_tuned(const char *layer, const char *text) {
  const td_load_options options = {.size = sizeof options, .tuning = text};
  td_model *model = NULL;
  if (td_model_load(layer, &options, &model, &err) != TD_OK) fail_msg("%s, %s: %s", layer, text, err.text);
  const uint64_t answer = answer_of(model);
  td_model_free(model);
  assert_int_not_equal(answer, 0);
  return answer;
}

static void no_number_changes_a_bit(void **state) {
  (void)state;
  for (size_t l = 0; l < LAYERS; l++) {
    const uint64_t expected = answer_tuned(layers[l], NULL);
    td_tuning number = {.size = sizeof number};
    for (size_t i = 0; td_tuning_at(i, &number); i++)
      for (const char *at = number.candidates; *at; at += strspn(at, " ")) {
        const int length = (int)strcspn(at, " ");
        char text[96];
        snprintf(text, sizeof text, "%s=%.*s", number.name, length, at);
        if (answer_tuned(layers[l], text) != expected) fail_msg("%s: %s changes what it answers", layers[l], text);
        at += length;
      }
  }
}

/* All at once, as `treadle tune` may keep them, and as other CPUs have them. */
static void sets_change_no_bit(void **state) {
  (void)state;
  static const char *const sets[] = {
      "product_panels=3,packed_groups=4,conv_panels=3,winograd_panels=3,tall_rows=8,b_lines=8,tile_steps=4",
      "product_panels=2,conv_panels=4,winograd_panels=4,tall_rows=8,block_k=384,chunk_floats=32768",
  };
  for (size_t l = 0; l < LAYERS; l++)
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
      assert_int_equal(answer_tuned(layers[l], sets[i]), answer_tuned(layers[l], NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_number_changes_a_bit), cmocka_unit_test(sets_change_no_bit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
