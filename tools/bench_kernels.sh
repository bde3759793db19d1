#!/bin/sh
# bench_kernels.sh [--record] -- every suite on each level of instruction sets that this machine has, one thread, against
# bench/expected/LEVEL.txt; fails when a row has lost a fifth of its share of the roofline. --record: writes the files.
set -eu
treadle=build/treadle
status=0
levels=0
for level in avx2 avx512; do
  # A level the machine does not have is refused before anything runs.
  $treadle bench 'builtin:layer:unary 1x1' --isa $level --min-time 0 >/dev/null 2>&1 || continue
  levels=$((levels + 1))
  file=bench/expected/$level.txt
  if [ "${1:-}" = --record ]; then
    $treadle bench --suite all --isa $level --threads 1 --record $file
  else
    $treadle bench --suite all --isa $level --threads 1 --expect $file || status=1
  fi
done
[ $levels -gt 0 ] || { echo "bench_kernels.sh: this machine has none of the levels with expected shares" >&2; exit 2; }
exit $status
