#!/bin/sh
# Back up every stream, bucket and object store of a running server: backup.sh FOLDER
# The connection is that of `jetspark`: NATS_URL, NATS_CREDS, a context. KEEP backups are kept (7).
set -eu
folder=$1
name=$(date -u +%Y-%m-%dT%H%M%SZ)
mkdir -p "$folder"
# The folder gets its name when everything is in it: an interrupted backup is never taken for one.
rm -rf "$folder"/*.part
mkdir "$folder/$name.part"
streams=$(jetspark stream ls --all --names)
for stream in $streams; do
    jetspark stream backup --no-progress "$stream" "$folder/$name.part/$stream"
done
sync "$folder/$name.part"
mv "$folder/$name.part" "$folder/$name"
ls -d "$folder"/*Z | head -n "-${KEEP:-7}" | xargs -r rm -rf
echo "$folder/$name"
