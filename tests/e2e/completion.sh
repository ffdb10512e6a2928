#!/bin/bash
# The completion for bash: what it offers at a few places, and that `make install` means to put it where bash looks.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/e2e/libcheck.sh
script=$MAGIS_TMP/magisd.bash

# What is offered for these words, the last of which is being typed.
complete_words() {
    bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _magisd; echo "${COMPREPLY[*]}"' "$script" "$@"
}

check 'it is written' "$(bash deploy/completion.sh "$MAGISD" >"$script"; echo $?)" 0
check 'bash reads it' "$(bash -n "$script" 2>&1)" ''
check 'it completes magisd' "$(bash -c ". $script; complete -p magisd")" 'complete -o filenames -F _magisd magisd'
check 'a command' "$(complete_words magisd opt)" optimize
check 'internal commands are not offered' "$(complete_words magisd wor)" ''
check 'an option of it' "$(complete_words magisd optimize --eval)" --evaluations
check 'only its own options' "$(complete_words magisd optimize --max-st)" ''
check 'an option of another' "$(complete_words magisd serve --max-st)" --max-store
check 'a network' "$(complete_words magisd zoo bert-ti)" bert-tiny
check 'a network as a source' "$(complete_words magisd optimize zoo : bert-ti)" bert-tiny
check 'all networks after the colon' "$(complete_words magisd optimize zoo : | wc -w)" "$("$MAGISD" zoo | grep -c '^[^ ]')"
mkdir -p "$MAGIS_TMP/place/folder"
touch "$MAGIS_TMP/place/file"
check 'files where a file is wanted' "$(cd "$MAGIS_TMP/place" && complete_words magisd optimize --output fi)" file
check 'folders where a folder is wanted' "$(cd "$MAGIS_TMP/place" && complete_words magisd serve --data f)" folder
check 'installed where bash looks' "$(make -n install BUILD="$BUILD" DESTDIR=/stage PREFIX=/usr 2>/dev/null |
    grep -c '^install -D -m 644 .*magisd.bash /stage/usr/share/bash-completion/completions/magisd$')" 1
end_checks
