"""What two hosts hold, compared by their own bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project

REPLACED = """
set -e
id=$(docker create job-sample:v1)
docker cp "$id:/app/bin/llama-cli" /tmp/llama-cli
printf x >> /tmp/llama-cli
docker cp /tmp/llama-cli "$id:/app/bin/llama-cli"
docker commit "$id" job-sample:v1 >/dev/null
docker rm "$id" >/dev/null
rm /tmp/llama-cli
"""


def test_two_engines_hold_the_same(shipped: Project) -> None:
    """What a classic and a containerd store give of one image is the same, whatever IDs they show."""
    assert shipped.run("diff", "classic20:sample", "containerd26:job-sample:v1").out.startswith("same:")


def test_replaced_tag_is_named_down_to_the_file(shipped: Project) -> None:
    """Someone's `docker commit` under our tag: exit 14 with the program and where in it; its report passes no more."""
    shipped.fleet.ssh("classic20", REPLACED)
    try:
        done = shipped.run("diff", "containerd26:sample", "classic20:sample", "--json", code=14).json()
        found = {each["path"]: each for each in done["differences"]}
        assert found["/app/bin/llama-cli"]["kind"] == "content"
        assert found["/app/bin/llama-cli"]["parts"]
        assert [path for path in found if path.startswith("/app") and path != "/app/bin/llama-cli"] == []
        assert "changed after it was checked" in shipped.run("check", "classic20:sample", code=15).out
    finally:
        shipped.run("ship", "--variant", "sample", "--hosts", "classic20")
