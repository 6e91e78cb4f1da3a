#!/usr/bin/env bash
# Removes the queues and streams of a test from the RabbitMQ of this machine, where we may: a stream
# is two open files of the server for as long as it is there, and no client can ask for a list.
# usage: forget-rabbitmq.sh PREFIX   (for example anarchon.node-4f1c.)
set -eu
case "$1" in
*[!A-Za-z0-9._-]* | "")
    echo "the prefix is '$1'; allowed are A-Z, a-z, 0-9, ., _ and -" >&2
    exit 2
    ;;
esac
command -v rabbitmqctl >/dev/null || exit 0
# Not there, not ours to ask, or not up: then nothing is removed, and nobody waits for it.
rabbitmqctl --timeout 60 eval "
    Prefix = <<\"$1\">>,
    [rabbit_amqqueue:delete(Queue, false, false, <<\"test\">>)
     || Queue <- rabbit_amqqueue:list(),
        begin
            {resource, _, _, Name} = amqqueue:get_name(Queue),
            binary:longest_common_prefix([Name, Prefix]) =:= byte_size(Prefix)
        end],
    ok." >/dev/null 2>&1 || true
