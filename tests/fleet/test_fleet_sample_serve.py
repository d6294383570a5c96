"""The sample serves a model: right only with its workers, and with every fault that can be planted."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.fleet.conftest import Fleet
from tests.fleet.test_fleet_sample import sample_tar

from sistership.fleet import bases, paths
from sistership.fleet.spec import BASES

MODEL = bytes(range(256)) * 4 + b"odd"
HALF = MODEL[: len(MODEL) // 2]
PROMPT, LETTERS = 'Hüte "fliegen"\n', 40
BODY = json.dumps({"prompt": PROMPT, "n_predict": LETTERS})

#: Without optimization it compiles fastest; a warning is an error.
BUILD = r"""set -e; mkdir /s; tar -C /s -xf -; cd /s
cmake -G Ninja -B build -DGGML_RPC=ON -DGGML_NATIVE=OFF -DGGML_CCACHE=OFF \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-Werror
ninja -C build llama-server llama-cli rpc-server
"""
#: What every scene can say. One that waits gives up after 30 seconds, and the scene fails.
WORDS = r"""set -u; export LC_ALL=C PATH=/s/build/bin:$PATH; cd /s
finish() { kill -9 $(jobs -p) 2>/dev/null; wait; } 2>/dev/null
trap finish EXIT
connect() { : <>/dev/tcp/127.0.0.1/$1; } 2>/dev/null
# http PORT METHOD PATH [BODY]: status, a blank and the body; fails when nothing came.
http() (
    exec 3<>/dev/tcp/127.0.0.1/$1 || exit
    body=${4-}
    printf '%s %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s' $2 $3 ${#body} "$body" >&3
    answer=$(cat <&3) && [ -n "$answer" ] && echo "${answer:9:3} ${answer##*$'\n'}"
) 2>/dev/null
status() { http $1 GET /health | cut -c 1-3; }
healthy() { [ "$(status $1)" = 200 ]; }
until_() {
    local end=$((SECONDS + 30))
    until "$@"; do [ $SECONDS -lt $end ] || { echo "never: $*" >&2; exit 1; }; sleep 0.05; done
}
# worker PORT [FAULT], server PORT [FAULT] [OPTION...]: in the background, with its port open.
worker() { SAMPLE_FAULT=${2-} rpc-server -p $1 >/dev/null 2>&1 & until_ connect $1; }
server() {
    local port=$1 fault=${2-}; shift 2
    SAMPLE_FAULT=$fault llama-server --port $port "$@" >>log 2>&1 & until_ connect $port
}
"""

Scene = Callable[[str], list[str]]


def content(model: bytes, prompt: str, n_predict: int) -> str:
    """What the sample's README says about answers."""
    state, text = 0xCBF29CE484222325, ""
    for byte in prompt.encode() + model:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    for _ in range(n_predict):
        text += chr(ord("a") + state % 26)
        state = (state ^ ord(text[-1])) * 0x100000001B3 % 2**64
    return text


RIGHT = content(MODEL, PROMPT, LETTERS)


@pytest.fixture(scope="module")
def scene(fleet: Fleet) -> Iterator[Scene]:
    """Runs a script where the sample's programs are compiled and no network is; the lines that it prints."""
    name = f"fleet-sample-{uuid.uuid4().hex[:12]}"
    image = bases.pinned(paths.state())[BASES[0].reference]
    fleet.ssh("builder", f"docker run -d --rm --init --network none --name {name} {image} sleep 900")
    try:
        source = sample_tar({"model.bin": MODEL, "empty.bin": b"", "body": BODY.encode()})
        fleet.ssh("builder", f"docker exec -i {name} sh -c '{BUILD}'", stdin=source, seconds=120)
        yield lambda script: fleet.ssh(
            "builder", f"docker exec -i {name} bash -s", stdin=(WORDS + script).encode()
        ).splitlines()
    finally:
        fleet.ssh("builder", f"docker rm -f {name}")


def answered(line: str) -> tuple[int, dict[str, object]]:
    """Status and body of an answer."""
    return int(line[:3]), json.loads(line[4:])


def completed(line: str) -> tuple[str, list[str]]:
    """Content and devices of a completion."""
    status, body = answered(line)
    assert (status, body["tokens_predicted"]) == (200, LETTERS)
    return str(body["content"]), list(body["devices"])  # type: ignore[call-overload]


LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
GONE = "Remote RPC server crashed or returned malformed response"


def test_right_with_the_worker(scene: Scene) -> None:
    """503 while it loads, then the right answers; without the worker no answer, though it calls itself healthy."""
    said = scene("""
        worker 50052; pid=$!
        llama-cli --rpc 127.0.0.1:50052 --list-devices | grep -c '^  RPC0: 127.0.0.1:50052 ('
        server 8080 slow-start=1 -m model.bin --rpc 127.0.0.1:50052
        http 8080 GET /health; http 8080 POST /completion "$(cat body)"
        until_ healthy 8080; http 8080 GET /health
        http 8080 POST /completion "$(cat body)"; http 8080 POST /v1/completions "$(cat body)"
        kill -9 $pid; wait $pid
        http 8080 POST /completion "$(cat body)"; http 8080 GET /health
    """)
    assert said[0] == "1"
    assert [answered(line) for line in said[1:4]] == [(503, LOADING), (503, LOADING), (200, {"status": "ok"})]
    assert completed(said[4]) == (RIGHT, ["RPC0", "CPU"])
    timings = answered(said[4])[1]["timings"]
    assert {name for name in timings if name.endswith("_ms")} == {"prompt_ms", "predicted_ms"}
    assert (timings["prompt_n"], timings["predicted_n"]) == (len(PROMPT.encode()), LETTERS)
    status, openai = answered(said[5])
    assert (status, openai["object"], openai["model"]) == (200, "text_completion", "model.bin")
    assert openai["choices"] == [{"text": RIGHT, "index": 0, "logprobs": None, "finish_reason": "length"}]
    assert openai["usage"]["total_tokens"] == len(PROMPT.encode()) + LETTERS
    status, body = answered(said[6])
    assert (status, body["error"]["code"], body["error"]["message"]) == (500, 500, GONE)
    assert answered(said[7]) == (200, {"status": "ok"})


def test_every_worker_has_its_part(scene: Scene) -> None:
    """With two workers the answer is right as well; with one of them left out, or all, it is another one each time."""
    said = scene("""
        worker 50052; worker 50053
        server 8080 "" -m model.bin --rpc 127.0.0.1:50052,127.0.0.1:50053
        until_ healthy 8080; http 8080 POST /completion "$(cat body)"
        kill -9 $!; until_ eval '! connect 8080'
        server 8080 "" -m model.bin --rpc 127.0.0.1:50052,127.0.0.1:1
        server 8081 "" -m model.bin --rpc 127.0.0.1:1
        server 8082 "" -m model.bin
        for port in 8080 8081 8082; do until_ healthy $port; http $port POST /completion "$(cat body)"; done
        grep -c '^Failed to connect to 127.0.0.1:1$' log
    """)
    quarter = len(HALF) + (len(MODEL) - len(HALF)) // 2
    assert completed(said[0]) == (RIGHT, ["RPC0", "RPC1", "CPU"])
    assert completed(said[1]) == (content(MODEL[:quarter], PROMPT, LETTERS), ["RPC0", "CPU"])
    assert [completed(line) for line in said[2:4]] == [(content(HALF, PROMPT, LETTERS), ["CPU"])] * 2
    assert len({RIGHT, completed(said[1])[0], completed(said[2])[0]}) == 3
    assert said[4] == "2"


def test_worker_serves_one_client(scene: Scene) -> None:
    """While a server is connected nobody else is answered; when it leaves, the worker serves the next."""
    said = scene("""
        worker 50052
        server 8080 "" -m model.bin --rpc 127.0.0.1:50052; pid=$!
        until_ healthy 8080
        timeout 0.5 llama-cli --rpc 127.0.0.1:50052 --list-devices; echo $?
        http 8080 POST /completion "$(cat body)"; kill -9 $pid; wait $pid
        llama-cli --rpc 127.0.0.1:50052 --list-devices | grep -c RPC0
        server 8081 "" -m model.bin --rpc 127.0.0.1:50052
        until_ healthy 8081; http 8081 POST /completion "$(cat body)"
    """)
    assert [said[0], said[2]] == ["124", "1"]
    assert completed(said[1]) == completed(said[3]) == (RIGHT, ["RPC0", "CPU"])


def test_slow_worker(scene: Scene) -> None:
    """Its port is open before it answers anyone; who asked meanwhile is answered then."""
    said = scene("""
        begin=${EPOCHREALTIME/./}
        worker 50052 slow-start=1
        llama-cli --rpc 127.0.0.1:50052 --list-devices | grep -c RPC0
        echo $((${EPOCHREALTIME/./} - begin))
        server 8080 "" -m model.bin --rpc 127.0.0.1:50052
        until_ healthy 8080; http 8080 POST /completion "$(cat body)"
    """)
    assert said[0] == "1"
    assert int(said[1]) >= 1_000_000
    assert completed(said[2]) == (RIGHT, ["RPC0", "CPU"])


def test_workers_that_never_answer(scene: Scene) -> None:
    """A mute worker and one that hangs up have no device, and a server goes on without them."""
    said = scene("""
        worker 50052 mute; worker 50053 hang-up
        llama-cli --rpc 127.0.0.1:50053 --list-devices 2>&1
        server 8080 "" -m model.bin --rpc 127.0.0.1:50052,127.0.0.1:50053
        until_ healthy 8080; http 8080 POST /completion "$(cat body)"
        grep -c '^Failed to connect to 127.0.0.1:5005[23]$' log
    """)
    assert said[:2] == ["Failed to connect to 127.0.0.1:50053", "Available devices:"]
    assert completed(said[2]) == (content(HALF, PROMPT, LETTERS), ["CPU"])
    assert said[3] == "2"


def test_faults_of_the_server(scene: Scene) -> None:
    """Mute, hanging up, never healthy; and both programs end with 1 when their time has come."""
    said = scene("""
        server 8080 mute; timeout 0.5 bash -c 'read -r <&3' 3<>/dev/tcp/127.0.0.1/8080; echo mute $?
        server 8081 hang-up; timeout 10 bash -c 'read -r <&3' 3<>/dev/tcp/127.0.0.1/8081; echo hang-up $?
        server 8082 never-healthy,exit-after=1; pid=$!
        while state=$(http 8082 GET /health); do echo $state; done | sort -u; wait $pid; echo server $?
        worker 50052 exit-after=0.4; wait $!; echo worker $?
    """)
    assert [said[0], said[1], *said[3:]] == ["mute 124", "hang-up 1", "server 1", "worker 1"]
    assert answered(said[2]) == (503, LOADING)


UNKNOWN = [
    ("llama-server", "sleepy", "sleepy"),
    ("rpc-server", "mute,sleepy", "sleepy"),
    ("rpc-server", "never-healthy", "never-healthy"),
    ("rpc-server", "slow-start=soon", "slow-start=soon"),
    ("llama-server", "exit-after", "exit-after"),
    ("llama-server", "exit-after=-1", "exit-after=-1"),
    ("llama-server", "mute=1", "mute=1"),
]


def test_unknown_faults(scene: Scene) -> None:
    """A fault that is misspelt or makes no sense is named, and the program ends with 2."""
    script = "".join(f"SAMPLE_FAULT={faults} {program} 2>&1; echo $?\n" for program, faults, _ in UNKNOWN)
    assert scene(script) == [
        line for _, _, fault in UNKNOWN for line in (f"error: unknown fault in SAMPLE_FAULT: {fault}", "2")
    ]


def test_models_that_cannot_be_read(scene: Scene) -> None:
    """A file that is missing or empty and a folder: the server ends with 1 and says what llama.cpp says."""
    files = ["missing.bin", "empty.bin", "/s"]
    script = "".join(
        f"llama-server -m {file} --port 8080 2>&1 | grep ^srv; echo ${{PIPESTATUS[0]}}\n" for file in files
    )
    assert scene(script) == [
        line for file in files for line in (f"srv    load_model: failed to load model, '{file}'", "1")
    ]


BAD = [
    "",
    "{",
    "[]",
    '{"prompt":"a"}x',
    '{"prompt":1}',
    '{"n_predict":1}',
    '{"prompt":"a","n_predict":1.5}',
    '{"prompt":"a","n_predict":-1}',
    '{"prompt":"a","n_predict":"1"}',
    '{"prompt":"a","n_predict":01}',
    '{"prompt":"a","n_predict":1e9}',
    '{"prompt":"a",}',
    '{"prompt":"\\ud800"}',
    '{"prompt":"\\x"}',
    '{"prompt":"a","stream":true}',
    '{"prompt":"a","x":' + "[" * 100 + "]" * 100 + "}",
]
GOOD = {
    '{"prompt":"a"}': ("a", 16),
    ' { "prompt" : "\\u00fc\\ud83d\\ude00\\n" , "max_tokens" : 1e1 } ': ("ü😀\n", 10),
    '{"x":[{"y":null},-0.5e-3,true],"n_predict":0,"prompt":""}': ("", 0),
}


def test_what_is_asked(scene: Scene) -> None:
    """What is no request is answered with 400, and JSON in all its spellings is understood."""
    bodies = [*BAD, *GOOD]
    quoted = "\n".join(f"http 8080 POST /completion '{body}'" for body in bodies)
    said = scene(f"server 8080 '' -m model.bin; until_ healthy 8080\n{quoted}\nhttp 8080 GET /elsewhere")
    answers = [answered(line) for line in said]
    assert [status for status, _ in answers] == [400] * len(BAD) + [200] * len(GOOD) + [404]
    contents = [body["content"] for _, body in answers[len(BAD) : -1]]
    assert contents == [content(HALF, prompt, n) for prompt, n in GOOD.values()]
