#!/bin/sh
# trials.sh -- ./dev trials [NAME...]: tests/trials/, what nine trades do with an installation, each in an empty folder of its
# own. Takes some minutes: one of them builds the library three times.
#
# TREADLE_PYTHON: a Python that has torch, torchvision, onnx, pandas and pyarrow; without it that of ./dev test-python is taken,
# and what is missing fetched into it. Debian's gcc-aarch64-linux-gnu, where it is there, builds for another CPU.
set -u
. tools/common.sh

python=${TREADLE_PYTHON:-}
if [ -z "$python" ]; then
  install_packages $build_packages $python_packages python3-venv || exit 1
  python=build/python/env/bin/python
  [ -x $python ] || { mkdir -p build/python && /usr/bin/python3 -m venv build/python/env || exit 1; }
  $python -m pip --quiet --disable-pip-version-check install torch torchvision onnx onnxscript pandas pyarrow || exit 1
  python=$PWD/$python
fi

work=$PWD/build-test/trials
rm -rf "$work" && mkdir -p "$work" || exit 1
configure release -DTREADLE_PYTHON=ON >/dev/null && # what is installed, and no tests
  cmake --build build --target treadle treadle_static treadle_shared pages treadle_python && cmake --install build --prefix "$work/prefix" >/dev/null || exit 1
TREADLE_BUILD=$PWD/build /usr/bin/python3 -m pip --disable-pip-version-check wheel --quiet --no-index --no-build-isolation \
  --no-deps --wheel-dir "$work/wheel" bindings/python || exit 1
$python -m pip --disable-pip-version-check install --quiet --no-index --no-deps --target "$work/python" "$work"/wheel/*.whl || exit 1
export TOP=$PWD PREFIX=$work/prefix TREADLE=$work/prefix/bin/treadle PYTHON=$python
export PYTHONPATH=$work/python:$PWD/tests/trials

[ $# -gt 0 ] || set -- c_programmer language vision speech data performance debugger torch_compile packager
good=0 bad=0
for name; do
  script=$(ls tests/trials/"$name".* 2>/dev/null | grep -E '\.(sh|py)$')
  [ -n "$script" ] || { echo "there is no trial called $name" >&2; exit 2; }
  case $script in *.py) run=$python ;; *) run=sh ;; esac
  mkdir -p "$work/$name"
  echo "---- $name"
  if (cd "$work/$name" && $run "$TOP/$script"); then good=$((good + 1)); else bad=$((bad + 1)); fi
done
echo "$good passed, $bad failed"
[ $bad -eq 0 ]
