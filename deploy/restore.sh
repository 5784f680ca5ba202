#!/bin/sh
# Create every stream of a backup in a server that has none of them: restore.sh FOLDER/2026-11-18T030000Z
set -eu
backup=${1:?usage: restore.sh FOLDER/2026-11-18T030000Z}
if [ -z "$(ls "$backup")" ]; then
    echo "restore.sh: $backup has no streams" >&2
    exit 1
fi
for stream in "$backup"/*; do
    jetspark stream restore --no-progress -- "$stream"
done
