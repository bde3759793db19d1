#!/bin/sh
# suites.sh FILE... -- the lines "SUITE LINE" of each file SUITE.txt, deflated: packed_suites of SUITES_BYTES.
lines() {
  for file; do sed -e '/^#/d' -e '/^$/d' -e "s/^/$(basename "$file" .txt) /" "$file"; done
}
echo "enum { SUITES_BYTES = $(lines "$@" | wc -c) };"
echo "static const uint8_t packed_suites[] = {"
lines "$@" | sh "$(dirname "$0")/deflate.sh"
echo "};"
