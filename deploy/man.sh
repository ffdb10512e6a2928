#!/bin/sh
# Writes the manual page from what the program says of itself: man.sh build/magisd > magisd.1
# (each option's help comes from its line in server/options.def).
set -eu
program=$1

escape() {
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
}

# "  --name ARG   text" becomes a tagged paragraph; prose stays prose.
paragraphs() {
    escape | awk '
        /^ +\\-\\-/ {
            match($0, /^ +\\-\\-[^ ]+( [^ ]+)?/)
            tag = substr($0, 1, RLENGTH); text = substr($0, RLENGTH + 1)
            sub(/^ +/, "", tag); sub(/^ +/, "", text)
            printf ".TP\n.B %s\n%s\n", tag, text; next
        }
        /^usage: / { sub(/^usage: /, ""); printf ".PP\n.B %s\n", $0; next }
        /^options:$/ || /^$/ || /^Every option/ { next }
        { printf ".PP\n%s\n", $0 }'
}

version=$("$program" version 2>/dev/null | head -n 1 | escape)
cat <<END
.TH MAGISD 1 "" "$version" "User Commands"
.SH NAME
magisd \- plan memory for neural networks
.SH SYNOPSIS
.B magisd
.I COMMAND
.RI [ options ]
.SH DESCRIPTION
Takes the computation graph of a neural network and a budget of memory or time, and answers with execution plans that
fit: which regions to run in pieces, which tensors to recompute, which to park in host memory, and in which order to run
everything.
.SH COMMANDS
END
commands=$("$program" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
for command in $commands; do
    echo ".SS $command"
    "$program" "$command" --help | paragraphs
done
cat <<END
.SH ENVIRONMENT
Every option can be given as a variable
.B MAGISD_NAME
(upper case, dashes as underscores) or in a file named by
.BR \-\-config .
.SH EXIT STATUS
.TP
.B 0
done, and the limit met
.TP
.B 1
failed
.TP
.B 2
wrong usage or bad input
.TP
.B 3
limit not met, proven impossible or not
.TP
.B 4
unsupported operators
.TP
.B 130
interrupted; the best so far is still written
END
