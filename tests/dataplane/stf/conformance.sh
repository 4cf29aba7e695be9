#!/bin/sh
# conformance.sh TIERCAST_STF DEFAULT_FOLDER: runs p4c's conformance programs, all of them, from
# $TIERCAST_CONFORMANCE or the default folder; says so and exits 77 where there is no such folder.
folder=${TIERCAST_CONFORMANCE:-$2}
if [ ! -d "$folder" ]; then
  echo "no conformance programs: $folder is not a folder (set TIERCAST_CONFORMANCE)"
  exit 77
fi
exec "$1" "$folder"
