#!/bin/sh
# coverage.sh -- ./dev coverage: line coverage of src/ by the unit tests, the replayed fuzz inputs and the recorded models.
set -eu
. tools/common.sh
install_packages $build_packages gcovr libonnx-testdata
build coverage >/dev/null
find build-coverage -name '*.gcda' -delete
ctest --test-dir build-coverage -j2 --output-on-failure | grep -E '^[0-9]+% tests|Failed'
for backend in eager aot_eager native; do
  check_onnx build-coverage $backend | tail -n 1
  [ ! -d "$corpus" ] || check_corpus build-coverage $backend | tail -n 1
done
gcovr --root . --filter 'src/' -j 2 build-coverage --print-summary | sed -e '/^-*$/d' -e '/^branches/d' -e '/^functions/d'
