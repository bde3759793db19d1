/* classes.c -- classes of work, by the names of operators: coarse enough to compare a model before and after its nodes
 * were fused. */
#include <string.h>

#include "profile/profile_priv.h"

/* The first class one of whose words an operator's name holds; words are separated by blanks. */
static const struct {
  const char *name, *words;
} classes[] = {
    {"convolution", "conv depthwise"},
    {"attention", "attention"},
    {"matrix product", "linear matmul gemm einsum"},
    {"recurrent", "lstm gru rnn"},
    {"normalisation", "_norm softmax fused_rows scale_shift lrn hardmax"},
    {"reduction", "pool sum mean amax amin prod logsumexp arg all any topk sort unique"},
    {"data movement",
     "permute view slice cat copy expand gather index select stack split chunk pad repeat squeeze flatten shape "
     "depth_to_space space_to_depth flip scatter compress list optional where one_hot"},
};

static bool holds(const char *op, const char *words) {
  char word[32];
  while (*words) {
    const size_t n = strcspn(words, " ");
    memcpy(word, words, n);
    word[n] = '\0';
    if (strstr(op, word)) return true;
    words += n + (words[n] == ' ');
  }
  return false;
}

const char *prof_class_of(const char *op) {
  if (!op || !*op || strncmp(op, "prim::", 6) == 0) return "control";
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
    if (holds(op, classes[i].words)) return classes[i].name;
  return "pointwise";
}
