#!/bin/sh
# prelude.sh VOCABULARY SIMD MATH DOUBLE FUNCTIONS -- the text that opens generated files, deflated: packed_prelude of
# PRELUDE_BYTES; and FUNCTIONS, which follow where functions of f64 are called: packed_doubles of DOUBLES_BYTES. The
# prelude is the vocabulary for generated files, and of simd_priv.h, math_priv.h and math_double_priv.h what stands
# between the lines "prelude: begin" and "prelude: end".
text() {
  cat "$1"
  for header in "$2" "$3" "$4"; do
    awk '$0 == "/* prelude: end */" { inside = 0; parts++ }
      inside { print }
      $0 == "/* prelude: begin */" { inside = 1 }
      END { exit parts != 1 || inside }' "$header" || { echo "prelude.sh: $header needs one part between its marks" >&2; exit 1; }
  done
}
prelude() {
  text "$@" | sed 's/  *\\$/ \\/'
}
text "$@" > /dev/null || exit 1
echo "enum { PRELUDE_BYTES = $(prelude "$@" | wc -c), DOUBLES_BYTES = $(wc -c < "$5") };"
echo "static const uint8_t packed_prelude[] = {"
prelude "$@" | sh "$(dirname "$0")/deflate.sh"
echo "};"
echo "static const uint8_t packed_doubles[] = {"
sh "$(dirname "$0")/deflate.sh" < "$5"
echo "};"
