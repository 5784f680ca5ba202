#!/bin/sh
# Back up every stream, bucket and object store of a running server: backup.sh FOLDER
# The connection is that of `jetspark`: NATS_URL, NATS_CREDS, a context. KEEP backups are kept (7).
set -euf
folder=${1:?usage: backup.sh FOLDER}
name=$(date -u +%Y-%m-%dT%H%M%SZ)
mkdir -p "$folder"
# The folder gets its name when everything is in it: an interrupted backup is never taken for one.
find "$folder" -maxdepth 1 -name '*.part' -exec rm -rf {} +
mkdir "$folder/$name.part"
save() {
    rm -rf "$folder/$name.part/$1"
    jetspark stream backup --no-progress -- "$1" "$folder/$name.part/$1"
}
streams=$(jetspark stream ls --all --names)
for stream in $streams; do
    save "$stream" && continue
    # It may have been deleted meanwhile, and created again. Any other error ends the backup.
    names=$(jetspark stream ls --all --names)
    if printf '%s\n' "$names" | grep -qxFe "$stream"; then
        save "$stream"
    else
        rm -rf "$folder/$name.part/$stream"
        echo "Stream $stream was deleted meanwhile"
    fi
done
sync -f "$folder/$name.part"
mv "$folder/$name.part" "$folder/$name"
cd "$folder"
find . -maxdepth 1 -name '*Z' | sort | head -n "-${KEEP:-7}" | xargs -r rm -rf
echo "$folder/$name"
