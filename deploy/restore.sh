#!/bin/sh
# Create every stream of a backup in a server that has none of them: restore.sh FOLDER/2026-11-18T030000Z
set -eu
for stream in "$1"/*; do
    jetspark stream restore --no-progress "$stream"
done
