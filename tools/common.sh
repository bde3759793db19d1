# common.sh -- what ./dev and the scripts of tools/ share; read with `.` at the root of the repository.

# Debian 12's names. docs/dependencies.md says what each is for.
build_packages="cmake ninja-build gcc libc6-dev pkg-config libdeflate-dev zlib1g-dev libjansson-dev libspng-dev libjpeg62-turbo-dev libnghttp2-dev libssl-dev libyaml-dev libcmocka-dev"
clang_packages="clang-14 libclang-rt-14-dev lld-14"
python_packages="python3-dev python3-numpy python3-setuptools python3-wheel python3-pip python3-grpcio python3-yaml curl openssl haproxy"
lint_packages="clang-format-14 clang-tidy-14"

# Installs those of the named packages that are missing, and says which.
install_packages() {
  command -v dpkg-query >/dev/null || return 0 # not Debian: the build says what it misses
  missing=
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  echo "dev: installing$missing"
  as_root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "dev: not root and no sudo; as root run: apt-get install$missing" >&2
      return 1
    }
    as_root=sudo
  fi
  log=$(mktemp)
  if ! {
    $as_root apt-get update &&
      $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
  } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

build_folder() { # PRESET
  [ "$1" = release ] && echo build || echo "build-$1"
}

configure() { # PRESET [CMAKE ARGUMENT...]; a level that build_checked has left out before is looked for again
  launcher=
  if command -v ccache >/dev/null; then launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
  preset=$1
  shift
  cmake --preset "$preset" $launcher -UTREADLE_HAS_avx512 "$@"
}

build() { # PRESET [CMAKE ARGUMENT...]
  configure "$@" && cmake --build "$(build_folder "$1")"
}

build_threads() { # RUNTIME: the release build with pools of its threads
  configure release -B "build-$1" "-DTREADLE_THREADS=$1" && cmake --build "build-$1"
}

build_tsan() { # RUNTIME: the tests that run threads, of it
  configure tsan -B "build-tsan-$1" "-DTREADLE_THREADS=$1" && cmake --build "build-tsan-$1" --target threads_tests
}

# build_checked PRESET LEVELS [TARGET...]: a sanitizer's build; LEVELS: all, or narrow: without the widest, whose kernels take
# longest. (In builds for checks the portable level has other vectors than code generated for it, and other sums.)
build_checked() {
  levels=
  [ "$2" = all ] || levels=-DTREADLE_HAS_avx512=OFF
  preset=$1
  shift 2
  configure "$preset" $levels && cmake --build "$(build_folder "$preset")" ${1:+--target} "$@"
}

c_files() { # [FOLDER...]
  [ $# -gt 0 ] || set -- src include apps bindings tests examples
  for folder in "$@"; do
    [ ! -d "$folder" ] || git ls-files -co --exclude-standard -- "$folder" 2>/dev/null || find "$folder" -type f
  done | grep '\.[ch]$' | LC_ALL=C sort
}

# The levels of instruction sets (--isa) whose kernels this machine can run.
isa_levels() {
  echo scalar vector
  grep -q '^flags.* avx2 .*' /proc/cpuinfo && echo avx2
  grep -q '^flags.* avx512vl' /proc/cpuinfo && echo avx512
  return 0
}

# The recorded cases of the ONNX standard, and of the corpus of models where there is one.
onnx_data=/usr/share/libonnx-testdata/data
check_onnx() { # FOLDER OF THE BUILD, BACKEND [OPTION...]
  folder=$1 backend=$2
  shift 2
  "$folder/treadle" check --skips tests/models/onnx.skips --backend "$backend" "$@" \
    $onnx_data/node $onnx_data/simple $onnx_data/pytorch-converted $onnx_data/pytorch-operator
}

corpus=${TREADLE_CORPUS:-../shared/corpus}
check_corpus() { # FOLDER OF THE BUILD, BACKEND [OPTION...]
  folder=$1 backend=$2
  shift 2
  "$folder/treadle" check --skips tests/models/corpus.skips --backend "$backend" "$@" \
    "$corpus"/*-onnx-* "$corpus"/*-pt-* "$corpus"/*-pt2*
}

# fuzz_target NAME LIBFUZZER-ARGUMENT...
fuzz_target() {
  name=$1
  shift
  rm -rf "build-asan/corpus/$name"
  mkdir -p "build-asan/corpus/$name" "build-asan/found/$name"
  if "build-asan/$name" "$@" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="build-asan/found/$name/" "build-asan/corpus/$name" "tests/fuzz/corpus/${name#fuzz_}" \
    >"build-asan/$name.log" 2>&1; then
    echo "$name $(grep -E 'DONE' "build-asan/$name.log" || :)"
  else
    tail -n 40 "build-asan/$name.log"
    echo "FAILED $name: the input is in build-asan/found/$name"
  fi
}

# fuzz LIBFUZZER-ARGUMENT...: each fuzz target from its corpus, two at a time; new inputs stay in build-asan/, so that
# only what was looked at is checked in. Ends with a count of targets.
fuzz() {
  fuzz_log=$(mktemp)
  for source in tests/fuzz/fuzz_*.c; do basename "$source" .c; done |
    xargs -P 2 -I '{}' sh -c '. tools/common.sh; fuzz_target "$@"' sh '{}' "$@" | tee "$fuzz_log"
  fuzz_failed=$(grep -c '^FAILED' "$fuzz_log" || :)
  rm -f "$fuzz_log"
  echo "$(($(ls tests/fuzz/fuzz_*.c | wc -l) - fuzz_failed)) passed, $fuzz_failed failed"
  [ "$fuzz_failed" -eq 0 ]
}

# check_files COMMAND FILES: the command over the files, a line each, some at a time, as most of its time is its start; where
# it ends badly, one by one, to name those that are bad. Ends with a count of files.
check_files() {
  check_log=$(mktemp)
  echo "$2" | check=$1 xargs -P 2 -n 24 sh -c '
    $check "$@" 2>/dev/null || for file; do $check "$file" >/dev/null 2>&1 || echo "FAILED $file"; done' sh >"$check_log"
  grep -v -E '^$' "$check_log" || :
  check_failed=$(grep -c '^FAILED' "$check_log" || :)
  rm -f "$check_log"
  echo "$(($(echo "$2" | wc -l) - check_failed)) passed, $check_failed failed"
  [ "$check_failed" -eq 0 ]
}

check_format() {
  check_files 'clang-format-14 --dry-run -Werror' "$(c_files)" || { echo "./dev fmt formats"; return 1; }
}

# clang-tidy over every C file that the release build compiles.
lint() {
  grep -q bindings/python build/compile_commands.json 2>/dev/null || configure release -DTREADLE_PYTHON=ON >/dev/null
  mkdir -p build/lint # options of gcc alone, and headers that it has precompiled, are left out
  sed -E 's/ -f(no-align-[a-z]+|no-caller-saves|no-tree-dominator-opts|no-move-loop-invariants|tree-loop-vectorize|vect-cost-model=[a-z]+)//g; s/ -Wno-maybe-uninitialized//; s/ -Winvalid-pch -include [^ ]+//' \
    build/compile_commands.json >build/lint/compile_commands.json
  check_files 'clang-tidy-14 --quiet -p build/lint' "$(c_files | grep '\.c$' | grep -v '^tests/install/')"
}
