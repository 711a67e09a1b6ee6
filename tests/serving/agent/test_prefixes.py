# SPDX-License-Identifier: MIT
"""Sums of R-TCP's clients by prefix: from files `clients` and `flows` made here, by command and in the textfile."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kmod.bpf_host import BpfHost
from serving.agent import cli, prefixes
from serving.agent.errors import AgentError
from serving.agent.kernel import BpfTree, ProcTree
from serving.agent.loop import Agent
from serving.agent.prefixes import read_prefixes
from serving.agent.textfile import Textfile, prefixes_text
from tests.serving.agent.fakes import FakeTree, log_to, settings_of

BITS = (24, 56)


def client(address: str, *, mbps: float = 0, segments: int = 1000, again: int = 50, limited: int = 0) -> str:
    """A line of `clients`. mbps: R, with a B of 100 ms of it; 0: not limited now."""
    limit, kind = round(125_000 * mbps), "limited" if mbps else "cleared"
    return (
        f"{address} class={kind} bucket_bytes={limit // 10} limit_bytes_per_s={limit} tokens_bytes=7 flows=1 sharing=1 "
        f"connections=1 min_rtt_us=40000 age_us=5 segments={segments} retransmitted={again} "
        f"limited_segments={limited} limited_retransmitted={limited // 10}\n"
    )


CLIENTS = (
    client("10.9.2.2", mbps=1, limited=400)
    + client("10.9.2.250", mbps=4, limited=600)
    + client("10.9.2.7", mbps=2, limited=200)
    + client("10.9.3.1", segments=50_000)
    + client("10.9.4.1", limited=100)  # its limit was lifted
    + client("2001:db8:0:1200::/64", mbps=8, segments=3000, limited=900)
    + client("2001:db8:0:12ff::/64")
)


def tree_of(folder: Path, *, file: str = "clients", text: str = CLIENTS, cca: str = "rtcp_bbr") -> ProcTree:
    (folder / cca).mkdir(parents=True, exist_ok=True)
    (folder / cca / file).write_text(text, encoding="ascii")
    return ProcTree(folder)


def test_clients_are_summed_by_prefix_and_those_where_a_cap_saves_most_come_first(tmp_path: Path) -> None:
    found = read_prefixes(tree_of(tmp_path), ["rtcp_cubic", "rtcp_bbr"], bits=BITS)
    assert found["unit"] == "clients"
    assert [one["prefix"] for one in found["prefixes"]] == [
        "10.9.2.0/24", "2001:db8:0:1200::/56", "10.9.4.0/24", "10.9.3.0/24",
    ]  # fmt: skip
    assert found["prefixes"][0] == {
        "prefix": "10.9.2.0/24",
        "clients": 3,
        "limited_clients": 3,
        "limit_bytes_per_s": (125_000, 250_000, 500_000),
        "bucket_bytes": (12_500, 25_000, 50_000),
        "segments": 3000,
        "retransmitted": 150,
        "limited_segments": 1200,
        "limited_retransmitted": 120,
        "capping_saves_permille": 40.0,
    }
    assert found["prefixes"][1]["clients"] == 2
    unlimited = found["prefixes"][2]
    assert (unlimited["limited_clients"], unlimited["limit_bytes_per_s"]) == (0, None)
    assert unlimited["limited_segments"] == 100


def test_only_the_largest_prefixes_are_shown_and_the_others_are_one_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tree_of(tmp_path)
    every = read_prefixes(tree, ["rtcp_bbr"], bits=BITS)
    few = read_prefixes(tree, ["rtcp_bbr"], bits=BITS, most=1)
    assert every["rest"]["clients"] == 0
    assert (few["rest"]["prefixes"], few["rest"]["clients"]) == (3, 4)
    assert few["all"] == every["all"]
    assert few["all"]["limit_bytes_per_s"] == (125_000, 375_000, 1_000_000)
    monkeypatch.setattr(prefixes, "_MOST_READ", 2)
    bounded = read_prefixes(tree, ["rtcp_bbr"], bits=BITS)
    assert [one["prefix"] for one in bounded["prefixes"]] == ["10.9.2.0/24", "10.9.3.0/24"]
    assert bounded["all"] == every["all"]


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        ((32, 128), {"10.9.2.2/32", "2001:db8:0:1200::/64"}),
        ((8, 32), {"10.0.0.0/8", "2001:db8::/32"}),
        ((0, 0), {"0.0.0.0/0", "::/0"}),
    ],
)
def test_a_prefix_has_the_length_that_is_set_but_no_more_bits_than_the_kernel_shows(
    tmp_path: Path, bits: tuple[int, int], expected: set[str]
) -> None:
    tree = tree_of(tmp_path, text=client("10.9.2.2") + client("2001:db8:0:1200::/64"))
    assert {one["prefix"] for one in read_prefixes(tree, ["rtcp_bbr"], bits=bits)["prefixes"]} == expected


def test_without_the_file_of_clients_the_live_connections_of_all_algorithms_count(tmp_path: Path) -> None:
    """The files are those of BPF. `class` is the class of the delay there."""

    def flow(local: str, remote: str, limiter: str) -> str:
        return (
            f"{local} {remote} state=1 class=1 mode=free segments=500 retransmitted=20 limiter={limiter} "
            "bucket_bytes=9000 limit_bytes_per_s=125000 limited_segments=300 limited_retransmitted=10\n"
        )

    flows = flow("10.1.1.1:80", "10.9.2.2:5001", "limited") + flow("[::1]:80", "[2001:db8::5]:5001", "unknown")
    tree_of(tmp_path, file="flows", text=flows)
    tree = tree_of(tmp_path, file="flows", text=flow("10.1.1.1:80", "10.9.2.3:77", "split"), cca="rtcp_cubic")
    found = read_prefixes(tree, ["rtcp_cubic", "rtcp_bbr", "rtcp_bbr3"], bits=BITS)
    assert found["unit"] == "connections"
    counted = {one["prefix"]: (one["clients"], one["limited_clients"]) for one in found["prefixes"]}
    assert counted == {"10.9.2.0/24": (2, 1), "2001:db8::/56": (1, 0)}


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="expected rtcp_cubic, rtcp_bbr or rtcp_bbr3 to be loaded"):
        read_prefixes(ProcTree(tmp_path), ["rtcp_bbr"], bits=BITS)
    old = client("10.9.2.2").replace(" limited_segments=0", "")
    with pytest.raises(AgentError, match=r"limited_segments.*of another version"):
        read_prefixes(tree_of(tmp_path, text=old), ["rtcp_bbr"], bits=BITS)
    assert read_prefixes(tree_of(tmp_path, text=""), ["rtcp_bbr"], bits=BITS)["all"]["clients"] == 0

    class Refusing(BpfHost):
        def read_bytes(self, *_names: str) -> bytes:
            raise PermissionError(errno.EPERM, "run as root")

    with pytest.raises(PermissionError, match="run as root: 'rtcp_bbr/flows'"):
        read_prefixes(BpfTree(Refusing), ["rtcp_bbr"], bits=BITS)


def test_the_command_shows_a_table_or_json_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "DEFAULT_CONFIG", tmp_path / "no-agent.toml")
    tree_of(tmp_path)
    where = ["--via", "proc", "--proc-root", str(tmp_path)]
    assert cli.run([*where, "clients", "--most", "2"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["10.9.2.0/24", "3", "3", "2", "(1-4)", "25", "(12.5-50)", "3000", "1200", "120", "40.0"]
    assert [line[:2] for line in lines[3:]] == [["others", "(2)"], ["all", "7"]]
    assert cli.run([*where, "clients", "--prefixes", "16,32", "--json"]) == 0
    assert [one["prefix"] for one in json.loads(capsys.readouterr().out)["prefixes"]] == [
        "10.9.0.0/16",
        "2001:db8::/32",
    ]
    assert cli.run([*where, "clients", "--prefixes", "24"]) == 2
    assert "--prefixes: expected the lengths for IPv4 and IPv6" in capsys.readouterr().err
    stand_in = tmp_path / "stand-in"
    stand_in.mkdir()
    (stand_in / "clients").write_text(CLIENTS, encoding="ascii")
    assert cli.run(["--stand-in", str(stand_in), "clients", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["all"]["clients"] == 7
    assert [path.name for path in stand_in.iterdir()] == ["clients"]


def test_the_textfile_has_the_prefixes_only_where_they_are_set(tmp_path: Path) -> None:
    file = tmp_path / "ccatune.prom"
    proc = tree_of(tmp_path / "proc")

    class Tree(FakeTree):
        def lines(self, cca: str, name: str) -> object:
            return proc.lines(cca, name)

    def text(**changed: str) -> str:
        settings = replace(settings_of(tmp_path, textfile=file), **changed)
        Agent(settings, tree=Tree(), log=log_to(io.StringIO()), boot_id="boot-1").run_once()
        return file.read_text(encoding="utf-8")

    assert "10.9" not in text()
    samples = [one for family in text_string_to_metric_families(text(rtcp_prefixes="24,56")) for one in family.samples]
    its = {
        (one.name.removeprefix("ccatune_agent_prefix_"), one.labels.get("quantile")): one.value
        for one in samples
        if one.labels.get("prefix") == "10.9.2.0/24"
    }
    assert its["limited_clients", None] == 3
    assert [its["limit_bytes_per_s", at] for at in ("0", "0.5", "1")] == [125_000, 250_000, 500_000]
    assert its["limited_retransmitted", None] / its["segments", None] == 0.04
    assert 'prefix="other"' in prefixes_text(read_prefixes(proc, ["rtcp_bbr"], bits=BITS, most=1))


def test_clients_are_read_seldom_and_a_failure_is_logged_once(tmp_path: Path) -> None:
    """Reading takes at most half a percent of the time, also where it takes long."""
    log, now_s, reads = io.StringIO(), [0.0], []

    class SlowTree(ProcTree):
        def lines(self, cca: str, name: str) -> Iterator[str]:
            if (cca, name) == ("rtcp_cubic", "clients"):
                reads.append(now_s[0])
                now_s[0] += 1
            return super().lines(cca, name)

    textfile = Textfile(
        tmp_path / "ccatune.prom", log=log_to(log), clock=lambda: now_s[0], clients=(SlowTree(tmp_path), BITS)
    )
    while now_s[0] < 450:
        textfile.write_if_due([], lambda _cca: pytest.fail("there is no algorithm"))
        now_s[0] += 10
    assert 3 <= len(reads) <= 450 / 200 + 1
    assert log.getvalue().count("clients_unreadable") == 1
