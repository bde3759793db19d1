#!/bin/sh
# prelude.sh VOCABULARY SIMD MATH DOUBLE FUNCTIONS -- the text that opens generated files, deflated: packed_prelude of
# PRELUDE_BYTES; and FUNCTIONS, which follow where functions of f64 are called: packed_doubles of DOUBLES_BYTES. It is the vocabulary for them, what simd_priv.h says on top of any vocabulary, math_priv.h up to the
# activations by name, and math_double_priv.h but for the level scalar.
text() {
  cat "$1"
  sed -n '/^\/\* 2^n for whole/,/^\/\* V_LANES rows/p' "$2" | sed '$d'
  sed -e '/^\/\* ---- activations by name/,$d' -e '/^#ifndef KERNELS_MATH_PRIV_H/d' -e '/^#define KERNELS_MATH_PRIV_H/d' \
    -e '/^#include/d' "$3"
  sed -n '/^typedef double vh/,/^V_BINARY(v_pow/p' "$4"
}
prelude() {
  text "$@" | sed 's/  *\\$/ \\/'
}
echo "enum { PRELUDE_BYTES = $(prelude "$@" | wc -c), DOUBLES_BYTES = $(wc -c < "$5") };"
echo "static const uint8_t packed_prelude[] = {"
prelude "$@" | sh "$(dirname "$0")/deflate.sh"
echo "};"
echo "static const uint8_t packed_doubles[] = {"
sh "$(dirname "$0")/deflate.sh" < "$5"
echo "};"
