#!/bin/sh
# bench_kernels.sh [--record] -- every suite on each level of instruction sets that this machine has, one thread, against
# bench/expected/FAMILY/LEVEL.txt; fails when a row has lost a fifth of its share of the roofline. --record: writes the
# files. FAMILY is vendor and family as CPUID says them; a CPU of a family without files is held against AuthenticAMD-25.
set -eu
treadle=build/treadle
status=0
levels=0
family=$(awk -F': *' '/^vendor_id/ { vendor = $2 } /^cpu family/ { print vendor "-" $2; exit }' /proc/cpuinfo)
folder=bench/expected/$family
if [ "${1:-}" = --record ]; then
  mkdir -p "$folder"
elif [ ! -d "$folder" ]; then
  folder=bench/expected/AuthenticAMD-25
  echo "bench_kernels.sh: no shares of $family yet; against those of $folder. --record writes them." >&2
fi
for level in avx2 avx512; do
  # A level the machine does not have is refused before anything runs.
  $treadle bench 'builtin:layer:unary 1x1' --isa $level --min-time 0 >/dev/null 2>&1 || continue
  levels=$((levels + 1))
  file=$folder/$level.txt
  if [ "${1:-}" = --record ]; then
    $treadle bench --suite all --isa $level --threads 1 --record "$file"
  else
    $treadle bench --suite all --isa $level --threads 1 --expect "$file" || status=1
  fi
done
[ $levels -gt 0 ] || { echo "bench_kernels.sh: this machine has none of the levels with expected shares" >&2; exit 2; }
exit $status
