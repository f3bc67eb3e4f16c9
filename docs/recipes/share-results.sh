#!/bin/sh
# Results of many machines in one branch, checked out beside the code as the folder that --results
# names. Every run is a file of its own, so machines do not change each other's files; of asv's
# benchmarks.json the version that was pushed last stays.
# Copy it to .github/, to .gitlab/, or to your home as hostbench-share-results. In a checkout:
#   share-results.sh get    before a run: what other machines have measured
#   share-results.sh put    after it: what this one has measured
set -eu
RESULTS=${RESULTS:-../hostbench-results}
BRANCH=${BRANCH:-hostbench-results}
export GIT_AUTHOR_NAME=hostbench GIT_AUTHOR_EMAIL=hostbench@localhost
export GIT_COMMITTER_NAME=hostbench GIT_COMMITTER_EMAIL=hostbench@localhost GIT_TERMINAL_PROMPT=0

check_out() { # without a branch of its own here, which actions/checkout would want to delete
  git worktree prune
  if [ -e "$RESULTS" ]; then
    mv "$RESULTS" "$RESULTS-$(date +%s)" # of a checkout that was made anew since
  fi
  if timeout 300 git fetch --quiet origin "$BRANCH"; then
    git worktree add --quiet --detach "$RESULTS" FETCH_HEAD
  else # the first night of all
    git worktree add --quiet --detach "$RESULTS"
    git -C "$RESULTS" checkout --quiet --orphan "$BRANCH"
    git -C "$RESULTS" rm -rfq .
    git -C "$RESULTS" commit --quiet --allow-empty -m "No results yet"
    git -C "$RESULTS" checkout --quiet --detach
    git branch --quiet -D "$BRANCH"
  fi
}
commit() {
  git -C "$RESULTS" add --all . ':!.journals'
  git -C "$RESULTS" diff --cached --quiet || git -C "$RESULTS" commit --quiet -m "Results"
}
pull() { # `theirs` is what this machine has committed
  timeout 300 git -C "$RESULTS" pull --quiet --rebase -X theirs origin "$BRANCH" && return
  git -C "$RESULTS" rebase --abort 2>/dev/null || true
  return 1
}

case ${1:-} in
get)
  [ -e "$RESULTS/.git" ] && git -C "$RESULTS" rev-parse --verify HEAD >/dev/null 2>&1 || check_out
  commit # what a night that was killed has left
  pull || echo "going on without what other machines have measured" >&2
  ;;
put)
  commit
  for try in 1 2 3; do
    pull || true # there is no such branch before the first push
    timeout 300 git -C "$RESULTS" push --quiet origin "HEAD:refs/heads/$BRANCH" && exit
    sleep "$try"
  done
  exit 1
  ;;
*)
  echo "usage: $0 get|put" >&2
  exit 2
  ;;
esac
