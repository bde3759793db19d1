# Reads `ctest --verbose`, prints "N passed, N failed": cmocka's cases where a program reports them, else the program.
# A program that dies or fails without naming a case counts as one failure.
/^[0-9]+: \[  PASSED  \] [0-9]+ test\(s\)/ { passed_in[$1 + 0] += $5 }
/^[0-9]+: \[  FAILED  \] .*: [0-9]+ test\(s\), listed below:/ {
  match($0, /: [0-9]+ test\(s\), listed/)
  failed_in[$1 + 0] += substr($0, RSTART + 2) + 0
}
/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
  match($0, /#[0-9]+:/)
  id = substr($0, RSTART + 1) + 0
  ok = $0 ~ / Passed +[0-9.]+ sec/
  p = passed_in[id] + 0
  f = failed_in[id] + 0
  if (ok && p == 0) p = 1
  if (!ok && f == 0) f = 1
  passed += p
  failed += f
}
END { printf "%d passed, %d failed\n", passed, failed }
