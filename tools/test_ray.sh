#!/bin/sh
# test_ray.sh -- ./dev test-ray [OPTION...]: deploy/'s batch job and server on Ray, as tools/check_ray.py says, whose options
# these are. A quarter of an hour on two cores. What Ray prints is in build-test/ray.log.
#
# TREADLE_PYTHON: a Python that has what `libraries` names (and for --table those of `peers`); without it a virtual
# environment is made in build/python/ray, and today's are fetched into it.
set -u
. tools/common.sh

libraries="ray[serve,data] numpy pillow tokenizers"
peers="torch torchvision transformers onnx onnxscript onnxruntime"
python=${TREADLE_PYTHON:-}
if [ -z "$python" ]; then
  install_packages $build_packages $python_packages python3-venv || exit 1
  python=build/python/ray/bin/python
  [ -x $python ] || { mkdir -p build/python && /usr/bin/python3 -m venv build/python/ray || exit 1; }
  case " $* " in *table*) libraries="$libraries $peers" ;; esac
  $python -m pip --quiet --disable-pip-version-check install $libraries || exit 1
fi

configure release -DTREADLE_PYTHON=ON >/dev/null && cmake --build build --target treadle_python >/dev/null || exit 1
mkdir -p build-test
export PYTHONPATH=$PWD/build/python:$PWD/deploy:$PWD/tools RAY_USAGE_STATS_ENABLED=0
$python tools/check_ray.py "$@" 2>build-test/ray.log || { echo "what Ray and Python said is in build-test/ray.log"; exit 1; }
