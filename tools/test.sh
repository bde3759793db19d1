#!/bin/sh
# test.sh -- ./dev test [--long]: the project's checks, in stages. A stage that fails does not hide the later ones. The last
# line counts the tests of all stages; the log of each stage stays in build-test/.
#
# Without --long: what a change breaks soonest, in some 15 minutes on two cores. Of the release build that is all but the
# longest; of the sanitizers' what they find most in: readers of hostile bytes, failing memory, the server, threads, the
# standard's cases, without kernels of the widest level. --long adds every test under the address sanitizer, all levels
# there, the recorded cases on each level, and clang-tidy.
#
# TREADLE_CORPUS: a folder of recorded models to check too; ../shared/corpus where that exists.
set -u
. tools/common.sh

# What the sanitizers' builds and the tests of each build are narrowed to.
if [ "${1:-}" = --long ]; then
  long=1 levels=all asan_targets= release_only= asan_only= tsan_only='-L threads'
else
  long= levels=narrow asan_targets='treadle treadle-serve memory_tests fuzz_targets'
  release_only='-LE long' asan_only='-L memory' tsan_only='-L threads -LE slow'
fi

logs=build-test
passed=0 failed=0
rm -rf "$logs" && mkdir -p "$logs" || exit 1

# start NAME COMMAND...: a stage in the background. What uses one core runs beside another of its kind.
start() {
  name=$1
  shift
  (
    began=$(date +%s)
    ("$@") >"$logs/$name.log" 2>&1 </dev/null
    echo "status=$? seconds=$(($(date +%s) - began))" >"$logs/$name.end"
  ) &
  echo $! >"$logs/$name.pid"
}

# aside COMMAND OF tools/common.sh...: with what the stages in front leave of the cores: they often leave one.
aside() {
  nice -n 10 sh -c '. tools/common.sh; "$@"' sh "$@"
}

# report NAME: adds up the last "N passed, N failed" that the stage printed. One that prints none is one test; one that
# ends badly without a failed test, or that counts nothing at all, counts one failure.
report() {
  status=1 seconds=0
  . "./$logs/$1.end"
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$logs/$1.log" | tail -n 1)
  stage_passed=0 stage_failed=0
  if [ -n "$counts" ]; then
    stage_passed=${counts%% passed*}
    stage_failed=${counts#* passed, }
    stage_failed=${stage_failed%% failed*}
  elif [ $status -eq 0 ]; then
    stage_passed=1
  fi
  if [ "$stage_failed" -eq 0 ] && { [ $status -ne 0 ] || [ "$stage_passed" -eq 0 ]; }; then stage_failed=1; fi
  passed=$((passed + stage_passed))
  failed=$((failed + stage_failed))
  printf '%-18s %5d passed %4d failed  %4d s\n' "$1" "$stage_passed" "$stage_failed" "$seconds"
  if [ "$stage_failed" -ne 0 ]; then
    echo "---- $logs/$1.log: what failed, and its end"
    grep -E '^FAIL|FAILED|error:|warning:|ERROR:|runtime error' "$logs/$1.log" | head -n 20
    echo "..."
    tail -n 6 "$logs/$1.log"
    echo "----"
  fi
}

finish() { # NAME...: the stages that were started
  for stage_name; do
    wait "$(cat "$logs/$stage_name.pid")"
    report "$stage_name"
  done
}

stage() { # NAME COMMAND...
  start "$@"
  finish "$1"
}

run_ctest() { # PRESET [CTEST ARGUMENT...]
  folder=$(build_folder "$1")
  shift
  # one more than cores, as some wait for their programs; the count is of cases, not of programs
  ctest --test-dir "$folder" --verbose -j3 --timeout 600 "$@" >"$folder/ctest.log" 2>&1
  ctest_status=$?
  cat "$folder/ctest.log"
  awk -f tools/count_tests.awk "$folder/ctest.log"
  return $ctest_status
}

# check_recorded PREFIX BUILD BACKEND [OPTION...]: the cases of the ONNX standard and of the corpus side by side
check_recorded() {
  prefix=$1 folder=$2 backend=$3
  shift 3
  start "${prefix}onnx-${2:-$backend}" check_onnx "$folder" "$backend" "$@"
  recorded="${prefix}onnx-${2:-$backend}"
  if [ -d "$corpus" ]; then # beside the repository, not in it
    start "${prefix}corpus-${2:-$backend}" check_corpus "$folder" "$backend" "$@"
    recorded="$recorded ${prefix}corpus-${2:-$backend}"
  fi
  finish $recorded
}

server_checks="grpc handlers workflows sequences io_threads" # that ctest does not run
# start_server_checks PREFIX BUILD CHECK...: side by side, as each mostly waits; by the distribution's Python, which has
# grpcio. `server_stages` names their stages.
start_server_checks() {
  prefix=$1 folder=$2 server_stages=
  shift 2
  for check; do
    start "$prefix$check" /usr/bin/python3 "tools/check_$check.py" "$folder"
    server_stages="$server_stages $prefix$check"
  done
}

stage packages install_packages $build_packages $python_packages $clang_packages $lint_packages libonnx-testdata

# A sanitizer's build takes what the stages beside it leave of the cores.
stage release-build build release -DTREADLE_WERROR=ON
start asan-build aside build_checked asan $levels $asan_targets
stage layers python3 tools/check_layers.py build
stage sizes python3 tools/check_sizes.py
stage house python3 tools/check_house.py
stage format check_format
start python sh tools/test_python.sh
start_server_checks '' build $server_checks
finish $server_stages python
stage readme /usr/bin/python3 tools/check_readme.py build
stage deploy /usr/bin/python3 tools/check_deploy.py build
stage install sh tools/check_install.sh # writes into the build tree
finish asan-build

start tsan-build aside build_checked tsan $levels threads_tests treadle treadle-serve
start docs python3 tools/check_docs.py build
start_server_checks asan- build-asan conformance $server_checks
finish $server_stages tsan-build

# A server that races is gone, and its requests fail. Where races would be found it has several I/O threads.
start asan-tests run_ctest asan $asan_only
[ -z "$long" ] || start lint aside lint
export TREADLE_CHECK_IO_THREADS=3 TSAN_OPTIONS=halt_on_error=1
start_server_checks tsan- build-tsan conformance $server_checks
unset TREADLE_CHECK_IO_THREADS TSAN_OPTIONS
finish $server_stages
stage tsan-tests run_ctest tsan $tsan_only
finish asan-tests docs
[ -z "$long" ] || finish lint

if [ -d "$corpus" ]; then start faults python3 tools/check_faults.py build "$corpus"; fi
stage release-tests run_ctest release $release_only
stage fuzz fuzz -seed=1 -runs=10000 -max_total_time=10 # the same inputs each time, for a fast target
check_recorded '' build eager
check_recorded '' build aot_eager
check_recorded '' build native
check_recorded asan- build-asan native
if [ "$long" ]; then
  stage asan-onnx-eager check_onnx build-asan eager
  for isa in $(isa_levels); do check_recorded '' build native --isa "$isa"; done
fi
if [ -d "$corpus" ]; then
  finish faults
  stage artifacts python3 tools/check_artifacts.py build "$corpus"
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
