#!/usr/bin/env bash
# Run the tests under every Python from 3.10 to 3.14 that is present, each in its own environment, without torch.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=() ran=()
for version in 3.10 3.11 3.12 3.13 3.14; do
  python="python$version"
  if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    # pyenv keeps versions that are not active out of the way, behind shims that refuse to run
    python=$(ls -d "$(pyenv root 2>/dev/null)"/versions/"$version".*/bin/python 2>/dev/null | sort -V | tail -1)
    [[ -n $python ]] || { echo "== Python $version is not here"; continue; }
  fi
  env=".venv-$version"
  if [[ ! -e $env/.installed || pyproject.toml -nt $env/.installed ]]; then
    "$python" -m venv "$env" &&
      # shellcheck disable=SC2086
      "$env/bin/python" -m pip --disable-pip-version-check install -q ${PIP_ARGS:-} -e '.[test]' &&
      touch "$env/.installed" || { failed+=("$version (install)"); continue; }
  fi
  echo "== $("$env/bin/python" --version)"
  "$env/bin/python" -m pytest "$@" && ran+=("$version") || failed+=("$version")
done
echo "passed: ${ran[*]:-none}; failed: ${failed[*]:-none}"
[[ ${#ran[@]} -gt 0 && ${#failed[@]} -eq 0 ]]
