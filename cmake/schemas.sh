#!/bin/sh
# schemas.sh FILE -- the schemas of src/import/aten/schemas.def, a line each, deflated: as bytes of a C table.
sed -n -E 's/^ATEN_(ROW|NONE_YET)\("(([^"\\]|\\.)*)".*/\2/p' "$1" | sed 's/\\"/"/g' | sh "$(dirname "$0")/deflate.sh"
