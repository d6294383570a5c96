"""Arguments against the help of the program that gets them."""

from __future__ import annotations

import pytest

from sistership.deploy.arguments import Help, given, parse, server_troubles

SERVER = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
--version                               show version and build info
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
-c,    --ctx-size N                     size of the prompt context
--rpc SERVERS                           comma separated list of RPC servers
-m,    --model FNAME                    model path
-dev,  --device <dev1,dev2,..>          comma-separated list of devices to use for offloading
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM
-sm,   --split-mode {none,layer,row}    how to split the model across multiple GPUs, one of:
                                        - none: use one GPU only
-ts,   --tensor-split N0,N1,N2,...      fraction of the model to offload to each GPU
--lora-scaled FNAME SCALE               path to LoRA adapter with user defined scaling
--control-vector-layer-range START END
                                        layer range to apply the control vector(s) to
-ot,   --override-tensor <tensor name pattern>=<buffer type>,...
                                        override tensor buffer type
--fim-model-1.5b-default                use a default model (note: can download weights)
--jinja                                 use jinja template for chat (default: disabled)

----- server-specific params -----

--host HOST                             ip address to listen (default: 127.0.0.1)
--port PORT                             port to listen (default: 8080)
--mmap, --no-mmap                       whether to memory-map the model
"""
BENCH = """\
usage: llama-bench [options]

options:
  -h, --help
  -r, --repetitions <n>                       number of times to repeat each test (default: 5)
  -ts, --tensor-split <ts0/ts1/..>            (default: 0)
  -fa, --flash-attn <0|1>                     (default: 0)
  -oe, --output-err <csv|json|jsonl|md|sql> output format printed to stderr (default: none)
  -sm, --split-mode <none|layer|row|tensor> (default: layer)
  --delay <0...N> (seconds)                   delay between each test (default: 0)
  -ot --override-tensor <tensor name pattern>=<buffer type>;... (default: disabled)

Multiple values can be given for each parameter by separating them with ','
"""
OLD_WORKER = """\
Usage: ./rpc-server [options]

options:
  -h, --help            show this help message and exit
  -H HOST, --host HOST  host to bind to (default: 127.0.0.1)
  -m MEM, --mem MEM     backend memory size (in MB)
"""
OLD_SERVER = """\
usage: ./llama-server [options]

  -ngl,  --gpu-layers N           number of layers to store in VRAM
         --rpc SERVERS            comma separated list of RPC servers
         --port PORT              port to listen (default: 8080)
"""
WORKER = """\
Usage: rpc-server [options]

options:
  -h, --help                       show this help message and exit
  -d, --device <dev1,dev2,...>     comma-separated list of devices
  -p, --port PORT                  port to bind to (default: 50052)
  -c, --cache                      enable local file cache
"""


@pytest.fixture
def server() -> Help:
    """A server as its help has it."""
    return parse(SERVER, "llama-server")


def test_every_form_of_help_is_read(server: Help) -> None:
    """Several names, several values, a value on a line that is full, switches; text of the next lines is no option."""
    assert server.options["-ngl"] == server.options["--n-gpu-layers"]
    assert server.options["-ngl"].values == ("N",)
    assert server.options["--lora-scaled"].values == ("FNAME", "SCALE")
    assert server.options["--control-vector-layer-range"].values == ("START", "END")
    assert server.options["--jinja"].values == server.options["--no-mmap"].values == ()
    assert server.options["-fa"].choices(0) == ("on", "off", "auto")
    assert server.options["-sm"].choices(0) == ("none", "layer", "row")
    assert server.options["-dev"].choices(0) == ()
    assert "-" not in server.options
    assert "none" not in " ".join(server.options)


def test_help_of_the_bench_and_of_the_worker() -> None:
    """Two spaces before each name, values in angle brackets."""
    assert parse(BENCH, "llama-bench").options["--flash-attn"].choices(0) == ("0", "1")
    worker = parse(WORKER, "rpc-server")
    assert worker.options["-c"].values == ()
    assert worker.options["--port"].values == ("PORT",)


def test_what_stands_close_to_the_value_is_no_value(server: Help) -> None:
    """Descriptions one space behind, blanks inside brackets, names without a comma, dots in a name."""
    assert server.options["-ot"].values == ("<tensor name pattern>=<buffer type>,...",)
    assert server.options["--fim-model-1.5b-default"].values == ()
    bench = parse(BENCH, "llama-bench").options
    assert bench["-oe"].values == ("<csv|json|jsonl|md|sql>",)
    assert bench["-sm"].values == ("<none|layer|row|tensor>",)
    assert bench["--delay"].values == ("<0...N>",)
    assert bench["-ot"] == bench["--override-tensor"]
    assert bench["-ot"].values == ("<tensor name pattern>=<buffer type>;...",)


def test_help_of_earlier_years() -> None:
    """The value behind each name; names in a column of their own."""
    worker = parse(OLD_WORKER, "rpc-server").options
    assert (worker["-H"], worker["-m"].values) == (worker["--host"], ("MEM",))
    assert worker["--host"].values == ("HOST",)
    old = parse(OLD_SERVER, "llama-server").options
    assert (old["--rpc"].values, old["-ngl"].values, old["--port"].values) == (("SERVERS",), ("N",), ("PORT",))


def test_other_words_for_on_and_off(server: Help) -> None:
    """llama.cpp takes more of them than its help names; where the choices are others, it does not."""
    for value in ("1", "0", "true", "disabled", "-1", "auto"):
        assert given(["-fa", value], server)[1] == []
    assert given(["-sm", "1"], server)[1] != []


def test_bench_takes_several_values() -> None:
    """That is what it is for."""
    bench = parse(BENCH, "llama-bench")
    assert given(["-sm", "layer,row", "-fa", "0,1"], bench)[1] == []
    (trouble,) = given(["-sm", "layer,rows"], bench)[1]
    assert trouble.what == "-sm layer,rows: there is no such value"


def test_what_is_known_is_taken(server: Help) -> None:
    """Options with their values, a negative number among them, in their places."""
    found, troubles = given(["-ngl", "99", "-t", "-1", "--jinja", "--lora-scaled", "a", "0.5"], server)
    assert troubles == []
    assert [(each.name, each.values, each.at) for each in found] == [
        ("-ngl", ("99",), 0),
        ("-t", ("-1",), 2),
        ("--jinja", (), 4),
        ("--lora-scaled", ("a", "0.5"), 5),
    ]


@pytest.mark.parametrize(
    ("args", "at", "what", "hint"),
    [
        (["--flash-atn", "on"], 0, "no option --flash-atn", "did you mean --flash-attn?"),
        (["-rpc", "x"], 0, "no option -rpc", "did you mean --rpc?"),
        (["--ngl", "99"], 0, "no option --ngl", "did you mean -ngl?"),
        (["--qqqqqq"], 0, "no option --qqqqqq", "sistership check"),
        (["--threads=4"], 0, "reads no --threads=", "a word of its own: --threads"),
        (["on"], 0, "'on' is no option", "one by one"),
        (["-t", "4", "-c"], 2, "-c has no value", "llama-server wants -c N"),
        (["-fa", "yes"], 1, "-fa yes: there is no such value", "one of on, off, auto"),
    ],
)
def test_what_the_program_would_not_take(server: Help, args: list[str], at: int, what: str, hint: str) -> None:
    """One trouble for each, with its place and the next step."""
    (trouble,) = given(args, server)[1]
    assert trouble.at == at
    assert what in trouble.what
    assert hint in trouble.hint


def test_a_deployment_fills_in_what_is_its_own(server: Help) -> None:
    """Workers, model and address are fields of the deployment."""
    troubles = server_troubles(["-ngl", "99", "--rpc", "a:1", "-m", "x", "--port", "1"], server, workers=1)
    assert [(trouble.at, trouble.what.split(" is ")[0]) for trouble in troubles] == [
        (2, "--rpc"),
        (4, "-m"),
        (6, "--port"),
    ]


def test_layers_are_said(server: Help) -> None:
    """Without them the server spills to the CPU in silence; a program without that option is not asked for it."""
    (trouble,) = server_troubles(["--jinja"], server, workers=0)
    assert (trouble.at, trouble.what) == (-1, "-ngl is missing")
    assert server_troubles(["--n-gpu-layers", "99"], server, workers=0) == []
    assert server_troubles([], parse(BENCH, "other"), workers=0) == []


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["-dev", "RPC0/CUDA0"], "-dev RPC0/CUDA0 is llama-bench's spelling"),
        (["-dev", "RPC0,CUDA0", "-ts", "6/3/1"], "-ts has 3 shares for 2 devices of -dev"),
        (["-dev", "RPC0,CUDA0", "-ts", "6,3,1"], "-ts has 3 shares for 2 devices of -dev"),
        (
            ["--device", "RPC0,RPC1,CUDA0", "--tensor-split", "6"],
            "--tensor-split has 1 shares for 3 devices of --device",
        ),
    ],
)
def test_devices_and_their_shares(server: Help, args: list[str], what: str) -> None:
    """As many of the one as of the other, in the server's spelling."""
    (trouble,) = server_troubles(["-ngl", "99", *args], server, workers=2)
    assert trouble.what == what


def test_a_workers_device_needs_a_worker(server: Help) -> None:
    """RPC0 without `workers:`."""
    args = ["-ngl", "99", "-dev", "RPC0,CUDA0"]
    assert server_troubles(args, server, workers=1) == []
    (trouble,) = server_troubles(args, server, workers=0)
    assert trouble.what == "RPC0 is a worker's device, and there is no worker"
