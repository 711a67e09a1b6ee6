// SPDX-License-Identifier: MIT
// Bindings for links and ensembles, which jobs share.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/table.hpp"
#include "params_text.h"
#include "path/link.hpp"
#include "run/jobs.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ccatune;

namespace {

using U32Array = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

}  // namespace

void bind_table(nb::module_& m);
void bind_table(nb::module_& m) {
    nb::register_exception_translator(
        [](const std::exception_ptr& p, void*) {
            try {
                std::rethrow_exception(p);
            } catch (const TableError& error) {
                PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.error_number(), error.what()).ptr());
            }
        },
        nullptr);
    nb::class_<Opportunities>(m, "Opportunities", "Delivery opportunities of a link, shared by the runs that use it.")
        .def(
            "__init__",
            [](Opportunities* self, U32Array at_ms, std::uint32_t period_ms) {
                new (self) Opportunities({at_ms.data(), at_ms.data() + at_ms.size()}, period_ms);
            },
            "at_ms"_a, "period_ms"_a);
    nb::class_<Table>(m, "Table", "An ensemble's text as the core parsed it.")
        .def(
            "__init__",
            [](Table* self, const std::string& text, const std::string& cca) { new (self) Table(text, id_of(cca)); },
            "text"_a, "cca"_a)
        .def_prop_ro("text", &Table::text, "The text that the core makes of it: the one it was parsed from.")
        .def_prop_ro("registry", [](const Table& t) { return std::string(t.table().registry); })
        .def_prop_ro("channel", [](const Table& t) { return std::string(t.table().channel); })
        .def_prop_ro("serial", [](const Table& t) { return t.table().serial; })
        .def_prop_ro("digest", [](const Table& t) { return std::string(t.table().digest); })
        .def_prop_ro("urgent", [](const Table& t) { return t.table().urgent; })
        .def(
            "admit", [](const Table& t, const Table* in_force) { return ens_admit(in_force ? &in_force->table() : nullptr, &t.table()); },
            "in_force"_a.none(), "1: may replace it. 0: is the one in force. Negative: errno.");
    m.def(
        "judge_text",
        [](const std::string& text, const std::string& cca) -> std::tuple<int, std::uint32_t, bool> {
            try {
                const Table table(text, id_of(cca));
                return {0, 0, true};
            } catch (const TableError& error) {
                return {error.error_number(), error.line(), error.complete()};
            }
        },
        "text"_a, "cca"_a, "(errno or 0, line of the error or 0, whether an error came before the text ended).");
    m.def(
        "text_end", [](const std::string& text, const std::string& cca) { return Table::text_end(text, id_of(cca)); },
        "text"_a, "cca"_a,
        "Bytes of the text up to the end of its table or `clear`, whatever follows; 0 where neither ends in it.");
    m.def(
        "parameters",
        [] {
            std::vector<std::string> names;
            for (const auto& spec : cca_params) names.push_back(cca_name_of(spec.id) + std::string(".") + spec.name);
            return names;
        },
        "The parameters of all algorithms, as ALGORITHM.NAME in the order of params.def.");
    m.def(
        "parse_parameters",
        [](const std::string& text, const std::string& cca,
           std::vector<u32> values) -> std::tuple<int, std::uint32_t, std::vector<u32>> {
            values.resize(CCA_MAX_PARAMS);
            u32 line = 0;
            const u32 id = id_of(cca);
            const int error = cca_parse_params(values.data(), id, text.data(), static_cast<u32>(text.size()), &line);
            u32 count = 0;
            while (count < CCA_MAX_PARAMS && cca_param_at(id, count)) ++count;
            values.resize(count);
            return {-error, error ? line : 0, values};
        },
        "text"_a, "cca"_a, "values"_a, "(errno or 0, line of the error or 0, values by parameter) of `name value` lines.");
}
