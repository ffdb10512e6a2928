#!/bin/sh
# Writes C that holds the files below a directory, the client scripts and schemas.json: embed.sh DIR > web_files.c
# What only serves development (package files, notes, node_modules) stays out.
set -eu
dir=$1
echo '/* Written by server/embed.sh. */'
echo '#include "server/http_priv.h"'
list=$(cd "$dir" 2>/dev/null && find . -type f ! -path '*/node_modules/*' ! -name 'package*.json' ! -name '*.md' ! -name '.*' |
    sed 's,^\./,,' | LC_ALL=C sort) || list=
clients=deploy/clients/torch
list="$list $(cd $clients && find . -name '*.py' | sed 's,^\./,clients/,' | LC_ALL=C sort)"
n=0
for f in $list; do
    case $f in
    clients/*) path=$clients/${f#clients/} ;;
    *) path=$dir/$f ;;
    esac
    printf '%s\n' "__asm__(\".section .rodata\\n.balign 16\\nmg_web_$n:\\n.incbin \\\"$path\\\"\\nmg_web_end_$n:\\n.byte 0\\n.previous\");"
    echo "extern const unsigned char mg_web_$n[], mg_web_end_$n[];"
    n=$((n + 1))
done
echo 'const struct mg_web_file mg_web_files[] = {'
n=0
for f in $list; do
    echo "    {\"$f\", mg_web_$n, mg_web_end_$n},"
    n=$((n + 1))
done
echo '    {0},'
echo '};'
echo "const size_t mg_web_file_count = $n;"
printf '%s\n' '__asm__(".section .rodata\n.globl mg_schemas\nmg_schemas:\n.incbin \"server/schemas.json\"\n.byte 0\n.previous");'
