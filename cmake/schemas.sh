#!/bin/sh
# schemas.sh FILE -- the schemas of src/import/aten/schemas.def, a line each, deflated: as bytes of a C table. What is cut
# off are gzip's header and trailer.
sed -n -E 's/^ATEN_(ROW|NONE_YET)\("(([^"\\]|\\.)*)".*/\2/p' "$1" | sed 's/\\"/"/g' | gzip -9n | tail -c +11 | head -c -8 |
  od -An -v -tx1 | sed -E 's/ ([0-9a-f]{2})/0x\1,/g'
