#!/bin/sh
# One night, for cron and systemd: in a checkout of its own that follows the remote's main branch.
# Copy it to ~/hostbench-nightly and share-results.sh to ~/hostbench-share-results, make both
# executable, and set these lines. `hostbench-nightly put` pushes what it has measured.
set -eu
CHECKOUT=${CHECKOUT:-$HOME/hostbench/checkout}
VENV=${VENV:-$HOME/hostbench/venv}
SHARE=${SHARE:-$HOME/hostbench-share-results} # SHARE=true keeps the results on this machine
DEVICE=${DEVICE:-cuda} # a machine that has lost its GPU fails; `cpu` measures the cpu device
export RESULTS="${RESULTS:-$HOME/hostbench/results}"

cd "$CHECKOUT"
[ "${1:-}" != put ] || exec "$SHARE" put
# One night at a time: another one would change the files that are measured.
exec 9>../nightly.lock
flock -n 9 || { echo "another night is at work in $CHECKOUT" >&2; exit 3; }
# A machine that has just started has no network yet.
get() { timeout --foreground 300 git fetch --quiet origin HEAD 9>&-; }
if get || { sleep 60; get; }; then
  git checkout --quiet --force --detach FETCH_HEAD
else
  echo "origin does not answer: the commit that is here is measured" >&2
fi
"$SHARE" get
# exec: a signal to stop reaches hostbench itself, which keeps what it has measured.
exec "$VENV/bin/hostbench" nightly --budget 45m --device "$DEVICE" --results "$RESULTS" \
  --summary ../summary.md "$@"
