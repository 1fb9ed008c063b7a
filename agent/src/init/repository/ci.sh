#!/bin/sh
# Checks a change before it is merged: every host in inventory/ must compile without a warning. A check starts no program of
# the change. It needs at least one recorded host: `zagent show grains --out yaml > inventory/$(hostname).yaml`. Any CI system can run this
# script. For a code host that reads SARIF, `zagent check . --sarif > zagent.sarif` writes the results as annotations.
set -eu
cd "$(dirname "$0")"
zagent check . --deny-warnings
# The manifest must match the files, and one of the signers must have signed it.
if [ -f manifest.yaml ]; then
  zagent manifest check . --allowed-signers allowed_signers
fi
# Shows what the change does on each host, if the target branch is available. CI sets TARGET_BRANCH.
if git rev-parse --verify --quiet "${TARGET_BRANCH:-origin/main}^{commit}" >/dev/null 2>&1; then
  zagent check . --diff "${TARGET_BRANCH:-origin/main}..HEAD"
fi
# Converges the states twice in a container, where one can be started. An image is built once: `zagent test --build-image`.
if [ -n "${ZAGENT_TEST_IMAGE:-}" ]; then
  zagent test . --image "$ZAGENT_TEST_IMAGE"
fi
