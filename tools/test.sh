#!/bin/sh
# test.sh -- ./dev test: every check of the project, in stages. A stage that fails does not hide the later ones. The last
# line counts the tests of all stages; the log of each stage stays in build-test/.
#
# TREADLE_CORPUS: a folder of recorded models to check too; ../shared/corpus where that exists.
set -u
. tools/common.sh

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
  # tests that wait for nothing share the cores; the count is of cases, not of programs
  ctest --test-dir "$folder" --verbose -j2 --timeout 600 "$@" >"$folder/ctest.log" 2>&1
  ctest_status=$?
  cat "$folder/ctest.log"
  awk -f tools/count_tests.awk "$folder/ctest.log"
  return $ctest_status
}

stage packages install_packages $build_packages $python_packages $clang_packages $lint_packages libonnx-testdata

stage release-build build release -DTREADLE_WERROR=ON
start asan-build aside build asan -DTREADLE_WERROR=ON # clang's: its warnings are errors too
stage release-tests run_ctest release
stage layers python3 tools/check_layers.py build
stage sizes python3 tools/check_sizes.py
stage house python3 tools/check_house.py
start docs python3 tools/check_docs.py build
start python sh tools/test_python.sh
finish docs python
stage grpc /usr/bin/python3 tools/check_grpc.py build # the distribution's, which has grpcio
stage handlers /usr/bin/python3 tools/check_handlers.py build
stage workflows /usr/bin/python3 tools/check_workflows.py build
stage sequences /usr/bin/python3 tools/check_sequences.py build
stage io-threads /usr/bin/python3 tools/check_io_threads.py build
stage readme /usr/bin/python3 tools/check_readme.py build
stage deploy /usr/bin/python3 tools/check_deploy.py build
stage install sh tools/check_install.sh # writes into the build tree

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

if [ -x build/treadle ]; then
  check_recorded '' build eager
  check_recorded '' build aot_eager
  for isa in $(isa_levels); do check_recorded '' build native --isa "$isa"; done
  if [ -d "$corpus" ]; then
    stage artifacts python3 tools/check_artifacts.py build "$corpus"
    stage faults python3 tools/check_faults.py build "$corpus"
  fi
fi
finish asan-build
start tsan-build aside build_tsan
start format aside check_format
start lint aside lint
stage asan-tests run_ctest asan
if [ -x build-asan/treadle ]; then
  start asan-onnx-eager check_onnx build-asan eager
  check_recorded asan- build-asan native
  finish asan-onnx-eager
fi
finish tsan-build
stage tsan-tests run_ctest tsan -L threads
# Most of a check's time is waited for: two builds at a time. A server that races, or that a sanitizer ends, is gone, and
# its requests fail. Where races would be found the server has several I/O threads.
for check in conformance grpc handlers workflows sequences io_threads; do
  start "asan-$check" /usr/bin/python3 "tools/check_$check.py" build-asan
  stage "tsan-$check" env TREADLE_CHECK_IO_THREADS=3 TSAN_OPTIONS=halt_on_error=1 /usr/bin/python3 "tools/check_$check.py" build-tsan
  finish "asan-$check"
done
stage fuzz fuzz -seed=1 -runs=10000 -max_total_time=10 # the same inputs each time, for a fast target
finish format lint

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
