#!/bin/sh
# What must hold before a change is merged: every host of inventory/ compiles, without a warning. Any CI can run it; a
# code host that reads SARIF gets the findings as remarks with `zagent check . --sarif > zagent.sarif`.
set -eu
cd "$(dirname "$0")"
zagent check . --deny-warnings
# What the change does to which host, as far as the target branch is here: CI says which one that is.
if git rev-parse --verify --quiet "${TARGET_BRANCH:-origin/main}^{commit}" >/dev/null 2>&1; then
  zagent check . --diff "${TARGET_BRANCH:-origin/main}..HEAD"
fi
