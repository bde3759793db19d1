#!/bin/sh
# A C programmer links the installed library, runs a model, and wants the command's speed and plain errors.
. "$TOP/tests/trials/trial.sh"
PKG_CONFIG_PATH=$(dirname "$(find "$PREFIX" -name treadle.pc)")
export PKG_CONFIG_PATH
LD_LIBRARY_PATH=$(dirname "$(find "$PREFIX" -name libtreadle.so | head -n 1)")
export LD_LIBRARY_PATH

cat >net.tdir <<'TDIR'
tdir 1
const %0 "w": f32[3] = {1, 2, 3}
input %1 "x": f32[rows, 3]
%2 = aten::mul(%1, %0)
%3 = aten::tanh(%2)
output "y" %3
TDIR
cat >mine.c <<'C'
#include <math.h>
#include <stdio.h>
#include <treadle/defaults.h>
#include <treadle/treadle.h>

int main(int count, char **words) {
  td_load_options options = {.size = sizeof options};
  td_defaults defaults;
  td_error err;
  td_model *model;
  td_session *session;
  float x[6] = {0.5f, 0.25f, -1, 0, 1, 2};
  td_tensor input = {.dtype = TD_F32, .rank = 2, .dims = {2, 3}, .data = x}, output;
  td_load_defaults(&options, &defaults);
  if (td_model_load(count > 1 ? words[1] : "net.tdir", &options, &model, &err) != TD_OK) {
    fprintf(stderr, "%s: %s\n", err.name, err.text);
    return (int)err.code;
  }
  if (td_session_new(model, NULL, &session, &err) != TD_OK || td_session_set_input(session, 0, &input, &err) != TD_OK ||
      td_session_run(session, &err) != TD_OK || td_session_output(session, 0, &output, &err) != TD_OK)
    return 100;
  for (int i = 0; i < 6; i++)
    if (fabsf(((float *)output.data)[i] - tanhf(x[i] * (float)(i % 3 + 1))) > 1e-6f) return 101;
  td_session_free(session);
  td_model_free(model);
  return 0;
}
C
check "it compiles without a warning" sh -c 'cc -std=c17 -Wall -Wextra -Werror mine.c $(pkg-config --cflags --libs treadle) -lm -o mine'
check "it runs" ./mine
fails "no file" 3 "cannot open the file" ./mine nowhere.onnx
printf '\12\377\377\377' >damaged.onnx
fails "a damaged file" 3 "damaged.onnx" ./mine damaged.onnx
check "C++ reads the header" sh -c 'echo "#include <treadle/treadle.h>
int main() { return td_version() ? 0 : 1; }" >plus.cc && ${CXX:-c++} plus.cc $(pkg-config --cflags --libs treadle) -o plus && ./plus'
check "the example compiles" sh -c 'cc -std=c17 -Wall -Wextra -Werror "$TOP/examples/run_model.c" $(pkg-config --cflags --libs treadle) -lm -o example'
check "the example runs" ./example net.tdir
check "CMake finds the package" sh -c 'cmake -S "$TOP/tests/install" -B cmake -DCMAKE_PREFIX_PATH="$PREFIX" && cmake --build cmake'
check "and its program runs" cmake/use_shared
finish
