// SPDX-License-Identifier: MIT
// The Python module emulation._engine copies jobs in and results out.
// simulation.hpp explains what a job means.
// emulation/run/simulator.py is the interface for users.
#include <nanobind/nanobind.h>

#include "sources_digest.hpp"  // generated: CMakeLists.txt

namespace nb = nanobind;

void bind_table(nb::module_& m);
void bind_path(nb::module_& m);
void bind_video(nb::module_& m);
void bind_results(nb::module_& m);
void bind_jobs(nb::module_& m);
void bind_bench(nb::module_& m);
void bind_sender(nb::module_& m);
void bind_detector(nb::module_& m);

NB_MODULE(_engine, m) {
    m.doc() = "The simulator's engine: discrete events over the core of kmod/core.";
    m.attr("SOURCES_DIGEST") = CCATUNE_SOURCES_DIGEST;
    bind_table(m);
    bind_path(m);
    bind_video(m);
    bind_results(m);
    bind_jobs(m);
    bind_bench(m);
    bind_sender(m);
    bind_detector(m);
}
