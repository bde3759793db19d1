# trial.sh -- what the trials written for the shell share; read with `.`. tools/trials.sh sets the variables:
# TREADLE (the installed command), PREFIX (where it is installed), PYTHON (one that has PyTorch), TOP (the repository). The
# working folder is empty, and the trial's own.
passed=0 failed=0

check() { # WHAT COMMAND...: the command ends well
  what=$1
  shift
  if "$@" >out.txt 2>err.txt; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED $what: status $?: $*"
    head -n 5 out.txt err.txt
  fi
}

fails() { # WHAT STATUS TEXT COMMAND...: the command ends with that status, and its error holds the text
  what=$1 want=$2 text=$3
  shift 3
  "$@" >out.txt 2>err.txt
  got=$?
  if [ $got -eq "$want" ] && grep -qF -- "$text" err.txt; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED $what: status $got, not $want with '$text': $*"
    head -n 5 err.txt
  fi
}

says() { # WHAT TEXT: the last command said it
  if grep -qF -- "$2" out.txt err.txt; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED $1: nobody said '$2'"
    head -n 5 out.txt err.txt
  fi
}

finish() {
  echo "$passed passed, $failed failed"
  [ $failed -eq 0 ]
}
