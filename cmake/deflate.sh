#!/bin/sh
# deflate.sh -- standard input, deflated: as bytes of a C table. What is cut off are gzip's header and trailer.
gzip -9n | tail -c +11 | head -c -8 | od -An -v -tx1 | sed -E 's/ ([0-9a-f]{2})/0x\1,/g'
