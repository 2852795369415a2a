#!/usr/bin/env bash
# Runs checks by name, all of them even if one fails, and ends with one line that says how each went:
#     check.sh TARGET CHECK...        TARGET: OK ruff=ok types=ok ... seconds=N
set -uo pipefail
cd "$(dirname "$0")/.."

readonly bin=.venv/bin
readonly target=$1
shift

run_check() {
    case $1 in
        ruff) $bin/ruff check ;;
        format) $bin/ruff format --check ;;
        types) $bin/mypy ;;
        imports) $bin/lint-imports --no-logo ;;
        pytest) $bin/python -m pytest ;;
        *) printf 'no check is called %s\n' "$1"; return 1 ;;
    esac
}

result=OK
summary=
for check in "$@"; do
    printf '== %s\n' "$check"
    if run_check "$check" </dev/null; then
        summary+=" $check=ok"
    else
        summary+=" $check=FAILED"
        result=FAILED
    fi
done
printf '%s: %s%s seconds=%d\n' "$target" "$result" "$summary" "$SECONDS"
[ "$result" = OK ]
