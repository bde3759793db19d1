#!/bin/sh
# prelude.sh FUNCTIONS TEXT... -- the texts that open generated files, deflated: packed_prelude of PRELUDE_BYTES; and
# FUNCTIONS, which follow where functions of f64 are called: packed_doubles of DOUBLES_BYTES.
functions=$1
shift
echo "enum { PRELUDE_BYTES = $(cat "$@" | wc -c), DOUBLES_BYTES = $(wc -c < "$functions") };"
echo "static const uint8_t packed_prelude[] = {"
cat "$@" | sh "$(dirname "$0")/deflate.sh"
echo "};"
echo "static const uint8_t packed_doubles[] = {"
sh "$(dirname "$0")/deflate.sh" < "$functions"
echo "};"
