# SPDX-License-Identifier: MIT
"""Every header of the core compiles alone, and all of them warning-free in each language that a host is written in.

Beyond the syntax: the code that comes out has nothing that a BPF program cannot do (signed division, wide arithmetic,
large stacks). That it needs no library and no floating-point register is shown by test_kernel_shape.py.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "kmod" / "core"
HEADERS = sorted(path.name for path in CORE.glob("*.h"))
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-I", str(CORE)]
BPF = ["clang", "--target=bpf", "-O2", "-std=c11", "-ffreestanding", "-xc", *WARNINGS]
COMPILERS = {
    "gcc -std=c11": ["gcc", "-std=c11", "-xc", *WARNINGS],
    "g++ -std=c++20": ["g++", "-std=c++20", "-xc++", *WARNINGS],
    # The headers alone emit no code; for functions that nobody calls clang warns, unlike gcc.
    "clang --target=bpf": [*BPF, "-Wno-unused-function"],
}
ENTRY_POINTS = """
#include "bbr1.h"
#include "bbr3.h"
#include "cubic.h"
#include "gr_flow.h"
#include "reno.h"
#include "roccet_flow.h"
#include "rtcp_ensemble.h"
#include "vegas.h"
void unit_init(struct gr_state *s, const struct gr_params *p, const struct cca_start *start, struct cca_decision *d)
{ gr_init(s, p, start, d); }
void unit_on_ack(struct gr_state *s, const struct gr_params *p, const struct cca_ack *ack, struct cca_decision *d)
{ gr_on_ack(s, p, ack, d); }
void unit_on_event(struct gr_state *s, const struct gr_params *p, const struct cca_event *ev, struct cca_decision *d)
{ gr_on_event(s, p, ev, d); }
void unit_flow(struct gr_flow *f, const struct gr_params *p, const struct ens_table *t, const struct cca_ack *ack,
               struct cca_decision *d)
{ gr_flow_on_ack(f, p, t, ack, d); }
void unit_grow(struct reno_state *s, struct cca_window *w, u32 acked_pkts)
{ reno_grow(s, w, acked_pkts); w->ssthresh_pkts = reno_ssthresh(s, w); w->cwnd_pkts = reno_undo(s, w); }
void unit_cubic(struct cubic_state *s, const struct cubic_params *p, const struct cca_ack *ack, struct cca_window *w)
{ cubic_on_ack(s, p, ack, w); cubic_grow(s, p, w, ack->acked_pkts); w->ssthresh_pkts = cubic_ssthresh(s, p, w);
  w->cwnd_pkts = cubic_undo(s, w); }
void unit_vegas(struct vegas_state *s, const struct vegas_params *p, const struct cca_ack *ack, struct cca_window *w)
{ vegas_on_ack(s, ack); vegas_grow(s, p, w, ack->acked_pkts); w->ssthresh_pkts = vegas_ssthresh(s, w);
  w->cwnd_pkts = vegas_undo(s, w); }
void unit_roccet(struct roccet_state *s, const struct roccet_params *p, const struct cca_ack *ack,
                 struct cca_window *w)
{ roccet_on_ack(s, p, ack, w); roccet_grow(s, p, w, ack->acked_pkts); w->ssthresh_pkts = roccet_ssthresh(s, p, w);
  w->cwnd_pkts = roccet_undo(s, w); }
void unit_roccet_event(struct roccet_state *s, const struct cca_event *ev)
{ roccet_on_event(s, ev); }
void unit_roccet_flow(struct roccet_flow *f, const struct roccet_params *p, const struct ens_table *t,
                      const struct cca_ack *ack, struct cca_window *w)
{ roccet_flow_on_ack(f, p, t, ack, w); }
void unit_bbr1(struct bbr1_state *s, const struct bbr1_params *p, const struct cca_ack *ack, struct cca_decision *d)
{ bbr1_on_ack(s, p, ack, d); }
void unit_bbr1_event(struct bbr1_state *s, const struct bbr1_params *p, const struct cca_event *ev,
                     struct cca_decision *d)
{ bbr1_on_event(s, p, ev, d); }
void unit_bbr3(struct bbr3_state *s, const struct bbr3_params *p, const struct cca_ack *ack, struct cca_decision *d)
{ bbr3_on_ack(s, p, ack, d); }
void unit_bbr3_loss(struct bbr3_state *s, const struct bbr3_params *p, const struct cca_loss *loss)
{ bbr3_on_loss(s, p, loss); }
void unit_rtcp_cubic(struct rtcp_cubic_state *s, const struct rtcp_cubic_params *p, struct rtcp_client *c,
                     const struct cca_ack *ack, struct cca_window *w)
{ rtcp_cubic_on_ack(s, p, c, ack, w); rtcp_cubic_grow(s, p, c, w, ack->acked_pkts); }
void unit_rtcp_bbr1(struct rtcp_bbr1_state *s, const struct rtcp_bbr1_params *p, struct rtcp_client *c,
                    const struct cca_ack *ack, struct cca_decision *d)
{ rtcp_bbr1_on_ack(s, p, c, ack, d); }
void unit_rtcp_event(struct rtcp_bbr1_state *s, const struct rtcp_bbr1_params *p, struct rtcp_client *c,
                     const struct cca_event *ev, struct cca_decision *d)
{ rtcp_bbr1_on_event(s, p, c, ev, d); }
struct unit_host { struct rtcp_cubic_flow *f; const struct rtcp_params *p; const struct ens_table *t; };
void unit_rtcp_flow(const struct unit_host *h, struct rtcp_client *c, const struct cca_ack *ack, struct cca_window *w)
{ rtcp_cubic_flow_on_ack(h->f, c, h->p, h->t, ack, w); }
"""


def compile_text(command: list[str], text: str, *, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile a translation unit into `folder`/unit.o."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"not installed: {command[0]}")
    arguments = [*command, "-c", "-o", str(folder / "unit.o"), "-"]
    return subprocess.run(arguments, input=text, capture_output=True, text=True, check=False, timeout=60)


def undefined_symbols(unit: Path) -> list[str]:
    """What the object wants from elsewhere."""
    listing = subprocess.run(["nm", "-u", str(unit)], capture_output=True, text=True, check=True, timeout=60)
    return [line.split()[-1] for line in listing.stdout.splitlines()]


def test_the_core_has_headers() -> None:
    assert "cca.h" in HEADERS


@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone_and_twice(header: str, tmp_path: Path) -> None:
    text = f'#include "{header}"\n#include "{header}"\nint unit_is_not_empty;\n'
    result = compile_text(COMPILERS["gcc -std=c11"], text, folder=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_all_headers_compile_together(compiler: str, tmp_path: Path) -> None:
    text = "".join(f'#include "{header}"\n' for header in reversed(HEADERS)) + "int unit_is_not_empty;\n"
    result = compile_text(COMPILERS[compiler], text, folder=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_warning_in_a_header_is_an_error(compiler: str, tmp_path: Path) -> None:
    text = '#include "cca.h"\nint unit(unsigned int a, int b);\nint unit(unsigned int a, int b) { return a < b; }\n'
    result = compile_text(COMPILERS[compiler], text, folder=tmp_path)
    assert result.returncode != 0
    assert "sign-compare" in result.stderr


def test_algorithms_become_bpf_code(tmp_path: Path) -> None:
    # A BPF function takes five arguments and returns a word, so everything below the entry points is inlined.
    inlined = "-DCCA_FN=static inline __attribute__((always_inline, unused))"
    result = compile_text([*BPF, inlined], ENTRY_POINTS, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert undefined_symbols(tmp_path / "unit.o") == []


def test_signed_division_does_not_become_bpf_code(tmp_path: Path) -> None:
    # Shows that the check above can fail.
    text = "int unit(int a, int b) { return a / b; }\n"
    result = compile_text(BPF, text, folder=tmp_path)
    assert result.returncode != 0
    assert "division" in result.stderr
