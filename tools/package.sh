# package.sh -- what wheel.sh and deb.sh share: a folder for their work, which goes with them, and checks that are
# counted; read with `.` at the root of the repository.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

check() { # WHAT COMMAND...
  what=$1
  shift
  if "$@" >"$work/log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    echo "ok      $what"
  else
    failed=$((failed + 1))
    echo "FAILED  $what"
    tail -n 20 "$work/log"
  fi
}
