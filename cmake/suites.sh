#!/bin/sh
# suites.sh FILE... -- the lines of each file SUITE.txt as rows of a C table: {"SUITE", "LINE"},
for file; do
  sed -e '/^#/d' -e "s/.*/{\"$(basename "$file" .txt)\", \"&\"},/" "$file"
done
