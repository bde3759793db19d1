#!/bin/sh
# lines.sh FILE -- the lines of a text file as rows of a C table; the line "@data@" becomes NULL.
sed -e 's/[\\"]/\\&/g' -e 's/^/"/' -e 's/$/\\n",/' -e 's/^"@data@\\n",$/NULL,/' "$1"
