#!/bin/sh
# test_python.sh -- bindings/python with the distribution's Python and numpy: built in build/, tested there, then made a wheel
# and tested as installed. The last line counts the tests of both.
set -u
. tools/common.sh

python=/usr/bin/python3 # the one that python3-dev and python3-numpy belong to
[ -x $python ] || python=python3
passed=0 failed=0

run_tests() { # FOLDER THAT HAS THE PACKAGE
  log=build/python/tests.log
  for tests in test_treadle test_runtime test_debug; do
    PYTHONPATH=$1 $python bindings/python/tests/$tests.py >"$log" 2>&1
    status=$?
    cat "$log"
    count=$(sed -n 's/^Ran \([0-9]*\) test.*/\1/p' "$log")
    bad=$(sed -n 's/^FAILED (//p' "$log" | tr -c '0-9\n' ' ' | awk '{for (i = 1; i <= NF; i++) n += $i; print n + 0}')
    if [ $status -ne 0 ] && [ "${bad:-0}" = 0 ]; then bad=1; fi
    failed=$((failed + ${bad:-0}))
    passed=$((passed + ${count:-0} - ${bad:-0}))
  done
}

build_wheel() {
  rm -rf build/python/wheel build/python/installed
  TREADLE_BUILD=$PWD/build $python -m pip --disable-pip-version-check wheel --quiet --no-index --no-build-isolation --no-deps \
    --wheel-dir build/python/wheel bindings/python &&
    ls build/python/wheel/treadle-*-cp39-abi3-*.whl &&
    $python -m pip --disable-pip-version-check install --quiet --no-index --no-deps --target build/python/installed \
      build/python/wheel/*.whl
}

configure release -DTREADLE_PYTHON=ON && cmake --build build --target treadle_python || exit 1
run_tests build/python
if build_wheel; then run_tests build/python/installed; else failed=$((failed + 1)); fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
