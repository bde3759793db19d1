#!/bin/sh
# shim.sh FOLDER -- its files as C: shim_files with names and lengths, packed_shim of SHIM_BYTES with them one behind the
# other, deflated.
cd "$(dirname "$0")" && deflate=$PWD/deflate.sh && cd "$OLDPWD" && cd "$1" || exit 1
files=$(find . -name '*.py' | sed 's|^\./||' | LC_ALL=C sort)
echo "enum { SHIM_BYTES = $(cat $files | wc -c) };"
echo "static const struct {"
echo "  const char *name;"
echo "  size_t bytes;"
echo "} shim_files[] = {"
for file in $files; do echo "  {\"$file\", $(wc -c <"$file")},"; done
echo "};"
echo "static const uint8_t packed_shim[] = {"
cat $files | sh "$deflate"
echo "};"
