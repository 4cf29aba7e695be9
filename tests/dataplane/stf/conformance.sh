#!/bin/sh
# conformance.sh TIERCAST_STF VARIABLE DEFAULT_FOLDER: runs p4c's conformance programs, all of them,
# from the folder that the environment variable names or the default folder; says so and exits 77
# where there is no such folder.
folder=$(printenv "$2") || folder=$3
if [ ! -d "$folder" ]; then
  echo "no conformance programs: $folder is not a folder (set $2)"
  exit 77
fi
exec "$1" "$folder"
