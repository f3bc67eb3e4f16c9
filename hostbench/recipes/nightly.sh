#!/bin/sh
# One night, for cron and systemd: in a checkout of its own that follows the remote's main branch.
# Copy it to ~/hostbench-nightly, make it executable, and set these four lines.
set -eu
CHECKOUT=${CHECKOUT:-$HOME/hostbench/checkout}
VENV=${VENV:-$HOME/hostbench/venv}
BRANCH=${BRANCH:-origin/hostbench-results}
DEVICE=${DEVICE:-cuda} # a machine that has lost its GPU fails; `cpu` measures the cpu device

cd "$CHECKOUT"
git fetch --quiet origin
git checkout --quiet --force --detach origin/HEAD
# exec: a signal to stop reaches hostbench itself, which keeps what it has measured.
exec "$VENV/bin/hostbench" nightly --budget 45m --device "$DEVICE" --push "$BRANCH" \
  --summary "$CHECKOUT/../summary.md" --page "$CHECKOUT/../page.html" "$@"
