#!/bin/sh
# allocators.sh [CYCLES]: bench/allocators.c under each allocator that the machine has; the table of docs/measurements/.
set -e
program=$(mktemp)
trap 'rm -f "$program"' EXIT
cc -O2 -o "$program" "$(dirname "$0")/allocators.c"
cycles=${1:-20}
find_library() { ldconfig -p | awk -v name="$1" 'index($1, name) == 1 { print $NF; exit }'; }
row() { printf '%-40s ' "$1" && shift && env "$@"; }
row 'C library' "$program" "$cycles"
row 'C library, no mmap, no trim' MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=4294967296 "$program" "$cycles"
row 'C library, huge pages' GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "$program" "$cycles"
jemalloc=$(find_library libjemalloc.so)
tcmalloc=$(find_library libtcmalloc_minimal.so)
mimalloc=$(find_library libmimalloc.so)
if [ -n "$jemalloc" ]; then
  row 'jemalloc' LD_PRELOAD="$jemalloc" "$program" "$cycles"
  row 'jemalloc, keeps what is freed' LD_PRELOAD="$jemalloc" \
    MALLOC_CONF=oversize_threshold:1,background_thread:true,dirty_decay_ms:-1,muzzy_decay_ms:-1 "$program" "$cycles"
fi
[ -z "$tcmalloc" ] || row 'tcmalloc' LD_PRELOAD="$tcmalloc" "$program" "$cycles"
[ -z "$mimalloc" ] || row 'mimalloc' LD_PRELOAD="$mimalloc" "$program" "$cycles"
row 'one arena (C library)' "$program" "$cycles" arena
