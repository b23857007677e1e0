# What the hostile programs share: they say what happened, and end with 42 when they got out.
escapes=0

# What the harness said about the host, given as `name=value`, becomes a variable.
for argument; do
    case $argument in
    *=*) export "fact_${argument%%=*}=${argument#*=}" ;;
    esac
done
: "${fact_ws:=/workspace}" "${fact_out:=/out}" "${fact_tool:=/tool}"

escaped() {
    echo "ESCAPED: $*"
    escapes=$((escapes + 1))
}

contained() { echo "contained: $*"; }

# Runs a command that may not succeed.
must_fail() {
    if "$@" 2>/dev/null; then
        escaped "$* succeeded"
    else
        contained "$*"
    fi
}

finish() {
    if [ "$escapes" -gt 0 ]; then
        echo ESCAPED
        exit 42
    fi
    echo CONTAINED
    exit 0
}
