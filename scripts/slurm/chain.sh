#!/bin/bash
# A run as a chain of jobs, one outer iteration each (a step of ANCORA, an iteration of AnchorLoop, a round of
# BenchEvolver), each of them queued behind the one before:
#
#   SELFPLAY_NAME=loop3 scripts/slurm/chain.sh 3 --gpus-per-node=8 --time=4:00:00 -- \
#       experiment=anchorloop_paper cluster=a100x8_80g
#
# Before `--` stand arguments of sbatch, after it settings. Jobs beyond the run's end find nothing to do; a job that
# fails leaves the next one to try again from the last checkpoint. `stop_after=5` among the settings makes a job's share
# larger. Prints the jobs' numbers.

set -eu
JOBS=$1
shift
OPTIONS=()
while (($#)) && [[ $1 != -- ]]; do
    OPTIONS+=("$1")
    shift
done
(($#)) || { echo "chain.sh: -- is missing between sbatch's arguments and the settings" >&2; exit 2; }
shift
export SELFPLAY_NAME=${SELFPLAY_NAME:-chain-$(date +%Y%m%d-%H%M%S)}
HERE=$(cd "$(dirname "$0")" && pwd)

AFTER=()
for ((number = 1; number <= JOBS; number++)); do
    ID=$(sbatch --parsable "${OPTIONS[@]}" "${AFTER[@]}" "$HERE/train.sbatch" stop_after=1 "$@")
    AFTER=(--dependency="afterany:${ID%%;*}")
    echo "${ID%%;*}"
done
