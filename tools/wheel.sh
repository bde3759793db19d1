#!/bin/sh
# wheel.sh -- ./dev wheel: dist/treadle-*.whl from the release build, with the libraries that it needs, and checks of it
# as users have it: in fresh environments with and without numpy, and that neither it nor `pip install
# ./bindings/python` leaves anything in the tree. The last line counts.
set -u
. tools/common.sh
. tools/package.sh
python=/usr/bin/python3 # the one that python3-dev and python3-numpy belong to
[ -x $python ] || python=python3

pip_of() { # PYTHON ARGUMENT...
  program=$1
  shift
  "$program" -m pip --disable-pip-version-check "$@"
}

build_wheel() {
  mkdir -p dist && rm -f dist/treadle-*.whl
  TREADLE_BUILD=$PWD/build TREADLE_BUNDLE=1 pip_of $python wheel --no-index --no-build-isolation --no-deps \
    --wheel-dir dist bindings/python
}

# What is in the tree and not in git, but for builds and dist/.
left_over() {
  git status --porcelain --ignored --untracked-files=all | grep -v -E '^!! (build(-[a-z]+)?|dist)/'
}

leaves_nothing() {
  left_over >"$work/after"
  ! grep -v -x -F -f "$work/before" "$work/after"
}

environment() { # NAME [OPTION OF venv...]: with the wheel, from dist/ alone
  name=$1
  shift
  $python -m venv "$@" "$work/$name" && pip_of "$work/$name/bin/python" install --no-index --no-deps dist/treadle-*.whl
}

lacks_numpy() { ! "$work/without/bin/python" -c 'import numpy'; }

# No library is found outside of the wheel but those of every Linux.
is_self_contained() {
  folder=$("$work/without/bin/python" -c 'import os, treadle; print(os.path.dirname(treadle.__file__))') || return 1
  ! ldd "$folder"/_core.abi3.so "$folder"/bin/* | grep ' => ' |
    grep -v -E " => $folder/| (=> )?/?(lib64/ld-linux|lib(c|m|dl|pthread|rt|z|gcc_s)\.so)|^.lib(c|m|z)\.so"
}

runs_a_model() { # ENVIRONMENT
  (cd "$work" && "$work/$1/bin/python" -c '
import treadle
model = treadle.load(b"""tdir 1
input %0 "x": f32[3]
%1 = aten::exp(%0)
output "y" %1
""")
y = model([0.0, 0.0, 0.0])
assert y.tolist() == [1, 1, 1], y.tolist()')
}

runs_the_command() {
  (cd "$work" && without/bin/treadle info && without/bin/treadle launch --help && without/bin/treadle serve --help)
}

runs_the_tests() {
  "$work/with/bin/python" bindings/python/tests/test_treadle.py
}

installs_from_source() {
  $python -m venv --system-site-packages "$work/source" &&
    pip_of "$work/source/bin/python" install --no-index --no-build-isolation --no-deps ./bindings/python
}

left_over >"$work/before"
echo >>"$work/before" # a list of nothing would be one that matches all
configure release -DTREADLE_PYTHON=ON >"$work/log" && cmake --build build || exit 1
check "a wheel is made" build_wheel
check "its tag names the platform" sh -c 'ls dist/treadle-*-cp39-abi3-manylinux_2_*_*.whl'
check "it installs without numpy" environment without
check "numpy is not there" lacks_numpy
check "it needs no other libraries" is_self_contained
check "it runs a model without numpy" runs_a_model without
check "its command runs, launches and serves" runs_the_command
check "it installs beside numpy" environment with --system-site-packages
check "its tests pass beside numpy" runs_the_tests
check "pip installs from the source" installs_from_source
check "what pip installed runs a model" runs_a_model source
check "nothing is left in the tree" leaves_nothing
ls -s --block-size=1 dist/treadle-*.whl
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
