#!/usr/bin/env bash
# Brings a machine that has Python 3.11+ and Java 17+ to where everything runs: uv, the virtual environment with the
# locked dependencies, and the jars of Kafka and ZooKeeper in the user's cache. Does only what is missing; takes a moment when nothing is.
# A machine that lacks Python or Java is told in one sentence what to install.
#     setup.sh GROUP        then also .tools/GROUP, an environment with that group of tools of pyproject.toml
set -euo pipefail
cd "$(dirname "$0")/.."

readonly uv_version=0.13.8 uv_minimum='(0, 9)'
readonly stamp=.venv/.kcoord-setup group=${1:-}
unset VIRTUAL_ENV UV_PROJECT_ENVIRONMENT PYTHONHOME PYTHONPATH

note() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

is_recent_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local name path
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if path=$(command -v "$name") && is_recent_python "$path"; then
            "$path" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

is_recent_uv() {
    uv --version 2>/dev/null |
        "$python" -c "import re, sys; found = re.match(r'uv (\d+)\.(\d+)', sys.stdin.read()); \
sys.exit(not found or tuple(map(int, found.groups())) < $uv_minimum)"
}

# Prints the uv to use: the one on PATH, or our own in .tools.
find_uv() {
    local own=.tools/uv-$uv_version
    if is_recent_uv; then
        command -v uv
        return
    fi
    if [ ! -x "$own/bin/uv" ]; then
        note "uv $uv_version into .tools"
        rm -rf "$own"
        "$python" -m venv "$own" >&2 ||
            fail "Python at $python cannot make virtual environments: install its venv module, for example with \`apt install python3-venv\`."
        "$own/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version" >&2 || {
            rm -rf "$own"
            fail "uv could not be installed with pip: check the network, or install uv yourself and put it on PATH."
        }
    fi
    printf '%s\n' "$own/bin/uv"
}

python=$(find_python) ||
    fail "Python 3.11 or newer was not found: install it, for example with \`apt install python3 python3-venv\` or \`brew install python\`."
java=$("$python" -m coordinator.local.java.runtime) || exit 1

# The environment is right if it was made from just these files and its Python still runs.
wanted=$(cat pyproject.toml uv.lock scripts/setup.sh hatch_build.py spark_kcoord/fetch/*/*.pyx spark_kcoord/fetch/*/*.pxi spark_kcoord/fetch/*/*.h | cksum)
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! is_recent_python .venv/bin/python; then
    note "$("$python" --version) ($python), $java"
    uv=$(find_uv)
    note "dependencies into .venv (some minutes the first time)"
    "$uv" sync --compile-bytecode --frozen --no-python-downloads --python "$python" >&2 ||
        fail "The dependencies could not be installed: see above; \`make setup\` goes on where it stopped."
    note "$(.venv/bin/python -m spark_kcoord.fetch.decoding.decode)"
    printf '%s\n' "$wanted" >"$stamp"
fi
.venv/bin/kcoord dev jars >/dev/null
# Only the tests need it, so that nothing else is kept from running.
if [ -z "${KCOORD_CHROMIUM:-}" ] && ! command -v chromium chromium-browser google-chrome google-chrome-stable chrome >/dev/null; then
    note "no Chromium is on the PATH, which the browser tests of make test need: install one, for example with \`apt install chromium\`."
fi

if [ -n "$group" ]; then
    # Tools that need nothing of ours are installed alone.
    if [ "$group" = audit ]; then only=(--only-group audit); else only=(--group "$group"); fi
    if [ "$(cat ".tools/$group/.kcoord-setup" 2>/dev/null)" != "$wanted" ]; then
        note "the tools of $group into .tools/$group"
        UV_PROJECT_ENVIRONMENT=.tools/$group "$(find_uv)" sync --frozen --no-python-downloads --python "$python" "${only[@]}" >&2 ||
            fail "The tools of $group could not be installed: see above; the same command goes on where it stopped."
        printf '%s\n' "$wanted" >".tools/$group/.kcoord-setup"
    fi
fi
