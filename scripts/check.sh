#!/usr/bin/env bash
# Runs checks by name, all of them even if one fails, and ends with one line that says how each went:
#     check.sh TARGET CHECK...        TARGET: OK ruff=ok types=ok ... seconds=N
# The last check is the long one: it is seen at work, and the others run beside it and are shown when it has ended.
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
        tidy) $bin/python scripts/tidy.py ;;
        # A process that dies fails the run at once: a new one would hide it.
        pytest) $bin/python -m tests.quick_start \
            $bin/python -m pytest -p tests.parallel --numprocesses 2 --max-worker-restart 0 --durations 15 --color="$color" ;;
        *) printf 'no check is called %s\n' "$1"; return 1 ;;
    esac
}

said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT

# Runs a check and keeps its exit code, for the end.
keep_check() {
    run_check "$1" </dev/null
    printf '%d' $? >"$said/$1.code"
}

readonly last=${!#}
color=no
[ ! -t 1 ] || color=yes
readonly color
for check in "$@"; do
    [ "$check" = "$last" ] || (
        renice -n 19 -p "$BASHPID" >/dev/null # some tests hold that answers come soon
        keep_check "$check"
    ) >"$said/$check" 2>&1 &
done
printf '== %s\n' "$last"
keep_check "$last" 2>&1 | tee "$said/$last"
wait
for check in "$@"; do
    [ "$check" = "$last" ] || { printf '== %s\n' "$check"; cat "$said/$check"; }
done

# The tests that failed once more, at most ten, a line each: of a long run often its last lines alone are kept.
if [ "$last" = pytest ] && [ "$(cat "$said/pytest.code")" != 0 ]; then
    grep -aE '^(\x1b\[[0-9;]*m)*(FAILED|ERROR) |^worker .* crashed|^!!!' "$said/pytest" | tail -n 10 | cut -c 1-400
fi

result=OK
summary=
for check in "$@"; do
    if [ "$(cat "$said/$check.code")" = 0 ]; then
        summary+=" $check=ok"
    else
        summary+=" $check=FAILED"
        result=FAILED
    fi
done
printf '%s: %s%s seconds=%d\n' "$target" "$result" "$summary" "$SECONDS"
[ "$result" = OK ]
