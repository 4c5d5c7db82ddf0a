"""Peers of libzmq for the tests, told what to be by their first argument.

They print lines, and the first of them is ready with the port. Frames are printed
in hex, joined by |.
"""

import argparse
import sys
import time

import zmq

END = b"\xff" * 8


def say(*words):
    print(*words, flush=True)


def number(i):
    return i.to_bytes(8, "big")


def line(parts):
    return "|".join(p.hex() for p in parts)


def heartbeats(socket, args):
    if args.heartbeat:
        socket.set(zmq.HEARTBEAT_IVL, args.heartbeat)
        socket.set(zmq.HEARTBEAT_TIMEOUT, args.heartbeat)
        socket.set(zmq.HEARTBEAT_TTL, 2 * args.heartbeat)


def pub(context, args):
    """Messages topic, number from 0, payload, until killed or --count is reached."""
    socket = context.socket(zmq.PUB)
    heartbeats(socket, args)
    if args.hwm:
        socket.set(zmq.SNDHWM, args.hwm)
        socket.set(zmq.SNDBUF, 4096)
    if args.connect:
        socket.connect(f"tcp://127.0.0.1:{args.connect}")
        say("ready", args.connect)
    else:
        say("ready", socket.bind_to_random_port("tcp://127.0.0.1") if not args.port else bind(socket, args))
    topics = args.topics.split(",")
    i = 0
    while args.count == 0 or i < args.count:
        socket.send_multipart([topics[i % len(topics)].encode(), number(i), bytes(args.size)])
        i += 1
        if args.pause and i % args.burst == 0:
            time.sleep(args.pause)
    say("sent", i)
    sys.stdin.read()


def relay(context, args):
    """A PUB that connects and sends the messages it is given, as lines in hex."""
    socket = context.socket(zmq.PUB)
    heartbeats(socket, args)
    socket.connect(f"tcp://127.0.0.1:{args.connect}")
    say("ready", args.connect)
    for text in sys.stdin:
        socket.send_multipart([bytes.fromhex(part) for part in text.strip().split("|")])


def bind(socket, args):
    # The port may still be in the hands of the peer that was killed.
    for _ in range(200):
        try:
            socket.bind(f"tcp://127.0.0.1:{args.port}")
            return args.port
        except zmq.ZMQError:
            time.sleep(0.05)
    raise SystemExit("cannot bind")


def sub(context, args):
    """Prints what it gets, or with --count the number of messages and of gaps."""
    socket = context.socket(zmq.SUB)
    heartbeats(socket, args)
    socket.set(zmq.RCVHWM, 100000)
    socket.subscribe(args.topics.encode())
    socket.connect(f"tcp://127.0.0.1:{args.connect}")
    say("ready", args.connect)
    expected, gaps = 0, 0
    while True:
        parts = socket.recv_multipart()
        if not args.count:
            say(line(parts))
            continue
        i = int.from_bytes(parts[1], "big")
        gaps += i - expected
        expected = i + 1
        if expected >= args.count:
            say("got", expected, "gaps", gaps)
            break
    sys.stdin.read()


def request(context, args):
    """A DEALER or, with --req, a REQ that asks from number 3 on."""
    socket = context.socket(zmq.REQ if args.req else zmq.DEALER)
    heartbeats(socket, args)
    socket.connect(f"tcp://127.0.0.1:{args.connect}")
    say("ready", args.connect)
    socket.send_multipart([number(3)] if args.req else [b"", number(3)])
    while True:
        parts = socket.recv_multipart()
        say(line(parts))
        if args.req or parts[-2] == END:
            break
    sys.stdin.read()


def router(context, args):
    """Replays --count batches from the number that is asked for, as vLLM does, with
    a topic in the replies when there is one."""
    socket = context.socket(zmq.ROUTER)
    heartbeats(socket, args)
    say("ready", socket.bind_to_random_port("tcp://127.0.0.1"))
    topic = [args.topics.encode()] if args.topics else []
    while True:
        identity, empty, start = socket.recv_multipart()
        for i in range(int.from_bytes(start, "big"), args.count):
            socket.send_multipart([identity, empty, *topic, number(i), bytes(args.size)])
        socket.send_multipart([identity, empty, *([b""] if topic else []), END, b""])


def main():
    kinds = {"pub": pub, "relay": relay, "sub": sub, "request": request, "router": router}
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--connect", type=int, default=0)
    parser.add_argument("--topics", default="")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--hwm", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.001, help="seconds")
    parser.add_argument("--burst", type=int, default=1, help="messages between pauses")
    parser.add_argument("--heartbeat", type=int, default=0, help="milliseconds")
    parser.add_argument("--req", action="store_true")
    args = parser.parse_args()
    kinds[args.kind](zmq.Context(), args)


main()
