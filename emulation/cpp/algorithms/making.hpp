// SPDX-License-Identifier: MIT
// What the simulator makes the algorithm of a flow from.
// Each algorithm of params.def has a function make_NAME, beside its class.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/table.hpp"
#include "params.h"

namespace ccatune {

class RtcpClients;

struct Making {
    const std::vector<std::uint32_t>& params;
    std::shared_ptr<const Table> table;
    std::uint8_t delay_class;
    std::uint32_t hash;  // of consecutive flows: consecutive numbers
    std::shared_ptr<RtcpClients> clients;
    std::uint32_t client;

    // Returns a struct of kmod/core with one 32-bit word for each of the algorithm's lines in params.def.
    template <class Params>
    Params params_of() const {
        Params made;
        if (params.size() * sizeof(std::uint32_t) != sizeof(made))
            throw std::invalid_argument("params: expected a value for each parameter of the algorithm");
        for (std::uint32_t i = 0; i < params.size(); ++i) cca_param_set(&made, i, params[i]);
        return made;
    }

    Following following() const { return {table, delay_class, hash}; }

    // Random values that are derived from it do not show that hashes are consecutive.
    std::uint32_t mixed_hash() const {
        std::uint32_t mixed = (hash ^ hash >> 16) * 0x7feb352du;
        mixed = (mixed ^ mixed >> 15) * 0x846ca68bu;
        return mixed ^ mixed >> 16;
    }
};

#define CCA_ALGORITHM(name, mode, host, meaning) std::unique_ptr<Algorithm> make_##name(const Making&);
#include "params.def"

}  // namespace ccatune
