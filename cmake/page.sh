#!/bin/sh
# page.sh FILE -- the page of a profile as C: its length, and its text deflated. Indentation is left out.
echo "enum { PAGE_BYTES = $(sed 's/^ *//' "$1" | wc -c) };"
echo "static const uint8_t packed_page[] = {"
sed 's/^ *//' "$1" | sh "$(dirname "$0")/deflate.sh"
echo "};"
