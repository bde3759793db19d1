#!/bin/sh
# classes.sh FILE -- the names of classes, a line each, deflated: packed_classes of CLASSES_BYTES and CLASSES lines.
echo "enum { CLASSES_BYTES = $(wc -c <"$1"), CLASSES = $(wc -l <"$1") };"
echo "static const uint8_t packed_classes[] = {"
sh "$(dirname "$0")/deflate.sh" <"$1"
echo "};"
