#!/bin/sh
# prelude.sh VOCABULARY SIMD MATH -- the text that opens generated files, as rows of C string literals: the vocabulary for
# them, what simd_priv.h says on top of any vocabulary, and math_priv.h up to the activations by name.
text() {
  cat "$1"
  sed -n '/^\/\* 2^n for whole/,/^\/\* V_LANES rows/p' "$2" | sed '$d'
  sed -e '/^\/\* ---- activations by name/,$d' -e '/^#ifndef KERNELS_MATH_PRIV_H/d' -e '/^#define KERNELS_MATH_PRIV_H/d' \
    -e '/^#include/d' "$3"
}
text "$@" | sed -e 's/  *\\$/ \\/' -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/'
