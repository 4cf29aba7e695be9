#!/bin/sh
# conformance.sh VARIABLE DEFAULT_FOLDER TIERCAST_STF [OPTION...]: runs p4c's conformance programs, all
# of them, from the folder that the environment variable names or the default folder; says so and
# exits 77 where there is no such folder.
variable=$1
folder=$(printenv "$variable") || folder=$2
shift 2
if [ ! -d "$folder" ]; then
  echo "no conformance programs: $folder is not a folder (set $variable)"
  exit 77
fi
exec "$@" "$folder"
