#!/usr/bin/env bash
# java as it is, but that Spark's own directory of settings is behind its jars, that these are found where their archive
# is for every clone, and that it starts from that.
readonly java=@JAVA@ jars=@JARS@ linked=@LINKED@ archive=@ARCHIVE@

given=("$@")
for ((at = 0; at < $# - 1; at++)); do
    [ "${given[at]}" = -cp ] || continue
    settings=${given[at + 1]%%:*} path=${given[at + 1]#*:}
    if [[ ${given[at + 1]} == *:* && $settings != *.jar && $path == *"$jars/*" ]]; then
        given[at + 1]=${path//"$jars/"/"$linked/"}:$settings
        [ ! -e "$archive" ] || given=(-XX:SharedArchiveFile="$archive" "-Xlog:cds*=off" "${given[@]}")
    fi
    break
done
exec "$java" "${given[@]}"
