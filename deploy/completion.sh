#!/bin/bash
# Writes the completion for bash from what the program says of itself: completion.sh build/magisd > magisd.bash
# (commands and options come from server/commands.def and server/options.def).
set -eu
program=$1

commands=$("$program" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | xargs)
networks=$("$program" zoo | sed -n 's/^\([^ ][^ ]*\) .*/\1/p' | xargs)

# The options of a command whose argument is named so (a regular expression).
options() {
    "$program" "$1" --help | sed -nE "s/^  (--[a-z-]+) $2( .*)?\$/\\1/p" | xargs
}

all_with() {
    for command in $commands; do
        options "$command" "$1"
    done | xargs -n 1 | sort -u | xargs | tr ' ' '|'
}

cat <<END
# Completion of magisd for bash. Generated: see deploy/completion.sh.
_magisd() {
    local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} options=
    local networks="$networks"
    COMPREPLY=()
    if [ "\$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help" -- "\$current")
        return
    fi
    case \${COMP_WORDS[1]} in
END
for command in $commands; do
    echo "    $command) options=\"$(options "$command" '.*')\" ;;"
done
cat <<END
    esac
    # zoo:NAME is three words to bash
    [ "\$current" = : ] && current= previous=:
    case \$previous in
    $(all_with DIR)) mapfile -t COMPREPLY < <(compgen -d -- "\$current") ;;
    $(all_with FILE)) mapfile -t COMPREPLY < <(compgen -f -- "\$current") ;;
    :) mapfile -t COMPREPLY < <(compgen -W "\$networks" -- "\$current") ;;
    *)
        case \${COMP_WORDS[1]},\$current in
        *,-*) mapfile -t COMPREPLY < <(compgen -W "\$options" -- "\$current") ;;
        zoo,*) mapfile -t COMPREPLY < <(compgen -W "\$networks" -- "\$current") ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "\$current") ;;
        esac
        ;;
    esac
}
complete -o filenames -F _magisd magisd
END
