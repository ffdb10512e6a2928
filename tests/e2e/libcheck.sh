# Counts of a test in shell: check WHAT GOT WANT, and at its end `end_checks`, whose status is the script's.
passed=0
failed=0

check() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1: got '$2', want '$3'"
    fi
}

end_checks() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}
