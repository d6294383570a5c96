"""What the pages say exists, and what exists is on a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sistership import errors
from sistership.host.sshconfig import HONOURED
from sistership.matrix import schema
from sistership.tasks.namespace import namespace
from sistership.verify.verdict import CODES

from .pages import DOCS, PAGES, README, ROOT, cells, flags, section

VERBS = {context.name: context for context in namespace().to_contexts() if context.name}
#: Page → the verbs that it is about.
VERB_PAGES = {name: [name] for name in VERBS if "." not in name} | {
    name: sorted(verb for verb in VERBS if verb.startswith(f"{name}."))
    for name in {verb.partition(".")[0] for verb in VERBS if "." in verb}
}
SECTIONS = ("When to use", "Flags", "Examples", "Exit codes", "JSON", "When it is cut in the middle")
EXIT_CODES = {
    errors.OK,
    errors.INTERRUPTED,
    *errors.PRECEDENCE,
    *(each.code for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)
      and hasattr(each, "code")),
}  # fmt: skip


@pytest.mark.parametrize("page", sorted(VERB_PAGES))
def test_every_verb_has_a_page(page: str) -> None:
    """A page with all sections, in order, and nothing in it that is not one of them."""
    text = (DOCS / f"{page}.md").read_text()
    titles = re.findall(r"(?m)^## (.+)$", text)
    assert [title for title in titles if title in SECTIONS] == list(SECTIONS)


@pytest.mark.parametrize("page", sorted(VERB_PAGES))
def test_flags_are_those_of_the_verb(page: str) -> None:
    """The tables of a page name every flag of its verbs and no other."""
    wanted: set[str] = set()
    for verb in VERB_PAGES[page]:
        named = {argument.name for argument in VERBS[verb].args.values() if not argument.positional}
        wanted |= {f"--{name.replace('_', '-')}" for name in named}
        # A switch that is on by default is shown by the flag that turns it off.
        for off, flag in VERBS[verb].inverse_flags.items():
            wanted = (wanted - {f"--{flag.lstrip('-')}"}) | {f"--{off.lstrip('-')}"}
    assert flags(section(DOCS / f"{page}.md", "Flags")) == wanted


def known_flags() -> set[str]:
    """Every flag of every verb, in both directions, and the ones before a verb."""
    found = {"--help", "--list", "--version"}
    for context in VERBS.values():
        found |= {f"--{argument.name.replace('_', '-')}" for argument in context.args.values()}
        found |= {f"--{name.lstrip('-')}" for name in context.inverse_flags}
    return found


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.name)
def test_flags_in_prose_exist(page: Path) -> None:
    """A flag in backquotes is one of ours, unless another program's name stands before it there."""
    spans = re.findall(r"`([^`\n]+)`", page.read_text())
    ours = [span for span in spans if span.startswith(("--", "sistership"))]
    named = {flag for span in ours for flag in re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", span)}
    assert named - known_flags() - {"--dry"} == set()


@pytest.mark.parametrize("page", sorted(VERB_PAGES))
def test_exit_codes_of_a_verb_exist(page: str) -> None:
    """Codes of a verb's page are in the table of all codes."""
    codes = {int(code) for row in cells(section(DOCS / f"{page}.md", "Exit codes")) for code in row[0].split(", ")}
    assert codes <= EXIT_CODES
    assert 0 in codes


def test_every_exit_code_is_documented() -> None:
    """The page of exit codes has every code that there is, and no other; so has the README."""
    page = (DOCS / "exit-codes.md").read_text()
    table = {int(row[0]) for row in cells(page)}
    reserved = set(map(int, re.findall(r"(?m)^(\d+) and (\d+) are kept", page)[0]))
    assert table | reserved == EXIT_CODES
    assert table & reserved == set()
    order = re.search(r"in this order: ([\d, ]+)\.", page)
    assert order
    assert tuple(map(int, order[1].split(", "))) == errors.PRECEDENCE


@pytest.mark.parametrize("page", [DOCS / "identity.md", README], ids=lambda page: page.name)
def test_every_verdict_has_its_code(page: Path) -> None:
    """The tables of verdicts have every verdict with its exit code."""
    rows = {row[0]: row[1] for row in cells(page.read_text()) if len(row) > 1 and row[1].isdigit()}
    assert {kind: int(code) for kind, code in rows.items()} == {str(kind): code for kind, code in CODES.items()}


def test_every_page_is_in_the_index() -> None:
    """Every page and every pipeline is linked from the index."""
    index = (DOCS / "index.md").read_text()
    linked = set(re.findall(r"\]\(([^)#]+)", index))
    wanted = {page.name for page in PAGES if page.name != "index.md"}
    wanted |= {path.relative_to(DOCS).as_posix() for path in (DOCS / "ci").glob("*.yml")}
    assert wanted - linked == set()


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link and picture is a file, and every anchor a title of it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            titles = re.findall(r"(?m)^#+ (.+)$", target.read_text())
            assert anchor in {slug(title) for title in titles}, f"{page.name}: {link}"


def slug(title: str) -> str:
    """The anchor that a title gets."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_one_sentence_a_line(page: Path) -> None:
    """Prose has no line that goes on with a second sentence, so that a change shows as one line."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text())
    lines = [line for line in text.splitlines() if not line.startswith(("|", "<!--", "#", "![", "1.")) and line.strip()]
    several = [line for line in lines if re.search(r"[a-z`)]\. [A-Z`]", line) and not re.match(r"\d\. ", line)]
    assert several == []


@pytest.mark.parametrize("row", ["MatrixFile", "DefaultsRow", "ForkRow", "VariantRow", "OptionsRow", "CudaRow",
                                 "BaseRow", "PatchRow", "RegistryRow", "HostRow"])  # fmt: skip
def test_every_key_of_the_matrix_is_explained(row: str) -> None:
    """The page of the file format has each section's keys with the words that the schema has for them."""
    titles = {"MatrixFile": "Top level", "DefaultsRow": "defaults", "ForkRow": "forks", "VariantRow": "variants",
              "HostRow": "hosts"}  # fmt: skip
    page = (DOCS / "buildmatrix.md").read_text()
    title = titles.get(row) or row.removesuffix("Row").lower().replace("patch", "patches")
    found = re.search(rf"(?ms)^##+ {title}\n(.*?)(?=^##|\Z)", page)
    assert found
    told = {cell[0].strip("`"): cell[1] for cell in cells(found[1])}
    fields = getattr(schema, row).model_fields
    assert told == {name: (field.description or "").strip() for name, field in fields.items()}


def test_honoured_directives_are_those_of_the_code() -> None:
    """The page of hosts lists what paramiko honours of ssh_config; ProxyCommand only as `none`."""
    text = section(DOCS / "inventory.md", "Without an ssh program")
    listed = re.search(r"Honoured:\n\n- (.*)", text)
    assert listed
    assert {name.lower() for name in re.findall(r"`(\w+)`", listed[1])} == HONOURED - {"proxycommand"}


def sources() -> str:
    """All of our Python, with the pieces of long strings joined."""
    text = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_messages_are_those_of_the_code() -> None:
    """Each message of the troubleshooting page is one that the code has; `…` stands for a value."""
    code = re.sub(r"\{[^{}]*\}", "…", sources())
    headings = re.findall(r"(?m)^### `(.+)`$", (DOCS / "troubleshooting.md").read_text())
    assert len(headings) > 50
    assert [message for message in headings if message not in code] == []


def test_schemas_are_linked() -> None:
    """The page of JSON links every schema of what verbs print."""
    page = (DOCS / "json.md").read_text()
    names = {path.name for path in (ROOT / "schemas").glob("*.json")} - {"buildmatrix.schema.json"}
    assert {name for name in names if f"(../schemas/{name})" not in page} == set()
