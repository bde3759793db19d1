/* test_artifact_models.c -- every built-in model, saved and loaded again: the same bits. */
/* ctest: slow */
#include "api/artifact.h"

static void builtin_models(void **state) {
  const folder *f = *state;
  static const char *const names[] = {
      "efficientnet_lite0", "resnet18",      "resnet50",  "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0",
      "densenet121",        "convnext_tiny", "vit_b_16",  "bert_base",    "distilbert",         "minilm_l6",
      "mobilebert",         "dlrm",          "conv_relu", "fused_chain",  "small_lstm"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[64];
    snprintf(path, sizeof path, "builtin:%s", names[i]);
    if (!round_trip(path, f->file)) fail_msg("%s does not run", path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(builtin_models, open_folder, close_folder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
