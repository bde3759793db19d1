/* test_artifact_models.c -- every built-in model, saved and loaded again: the same bits. */
/* ctest: slow */
#include "api/artifact.h"

/* Small ones first: under a sanitizer, which has one of gcc's or clang's signs, the others would take minutes. */
static const char *const names[] = {
    "conv_relu",  "small_lstm",      "fused_chain", "mobilenet_v3_small", "dlrm",       "mobilenet_v2",
    "minilm_l6",  "efficientnet_b0", "resnet18",    "efficientnet_lite0", "distilbert", "densenet121",
    "mobilebert", "convnext_tiny",   "resnet50",    "vit_b_16",           "bert_base"};
enum { NAMES = sizeof names / sizeof *names, SMALL = 5 };

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { COUNT = SMALL };
#elif __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { COUNT = SMALL };
#else
enum { COUNT = NAMES };
#endif

static void builtin_models(void **state) {
  const folder *f = *state;
  for (size_t i = 0; i < COUNT; i++) {
    char path[64];
    snprintf(path, sizeof path, "builtin:%s", names[i]);
    if (!round_trip(path, f->file)) fail_msg("%s does not run", path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(builtin_models, open_folder, close_folder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
