#!/bin/sh
# coverage.sh -- ./dev coverage: line coverage of src/ by the tests and the recorded models.
set -eu
. tools/common.sh
install_packages $build_packages gcovr libonnx-testdata
build coverage >/dev/null
find build-coverage -name '*.gcda' -delete
ctest --test-dir build-coverage -j2 --output-on-failure | tail -n 3
onnx_data=/usr/share/libonnx-testdata/data
if [ -x build-coverage/treadle ] && [ -d $onnx_data ]; then
  for backend in eager aot_eager; do
    build-coverage/treadle check --skips tests/models/onnx.skips --backend $backend $onnx_data/node $onnx_data/simple \
      $onnx_data/pytorch-converted $onnx_data/pytorch-operator | tail -n 1 || :
  done
fi
gcovr --root . --filter 'src/' --exclude-unreachable-branches -j 2 build-coverage --print-summary |
  sed -e '/^-*$/d' -e '/^branches/d' -e '/^functions/d'
