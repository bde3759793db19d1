#!/bin/sh
# test_clients.sh -- ./dev test-clients: clients that users have against the server, as tools/check_clients.py says: of PyPI,
# of TorchServe's repository, and Debian's curl, ab and h2load. A minute, and what is fetched.
#
# TREADLE_PYTHON: a Python that has what `libraries` names; without it a virtual environment is made in build/python/clients,
# and today's are fetched into it.
set -u
. tools/common.sh

libraries="tritonclient[http,grpc] kserve grpcio-tools googleapis-common-protos numpy"
python=${TREADLE_PYTHON:-}
install_packages $build_packages curl apache2-utils nghttp2-client || exit 1
if [ -z "$python" ]; then
  install_packages python3-venv || exit 1
  python=build/python/clients/bin/python
  [ -x $python ] || { mkdir -p build/python && /usr/bin/python3 -m venv build/python/clients || exit 1; }
  $python -m pip --quiet --disable-pip-version-check install $libraries || exit 1
fi

configure release >/dev/null && cmake --build build --target treadle treadle-serve >/dev/null || exit 1
$python tools/check_readme.py build --client || exit 1
exec $python tools/check_clients.py build
