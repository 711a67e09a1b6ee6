// SPDX-License-Identifier: MIT
// Reads a file of delays (emulation/scenario/delays.py describes the format).
#pragma once

#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/delay_steps.hpp"

namespace ccatune {

class DelayTraceReader {
public:
    // Throws std::runtime_error that names the line if the file is invalid.
    static std::shared_ptr<const DelaySteps> read(const std::string& path) {
        std::ifstream file(path);
        if (!file) throw std::runtime_error(path + ": cannot be read");
        DelayTraceReader reader;
        std::string line;
        for (int number = 1; std::getline(file, line); ++number)
            if (!reader.add(line.substr(0, line.find('#'))))
                throw std::runtime_error(path + ": line " + std::to_string(number) + ": expected `time_ms delay_ms`" +
                                         " with ascending times from 0, got '" + line + "'");
        if (reader.steps_.empty()) throw std::runtime_error(path + ": expected lines of `time_ms delay_ms`, got none");
        return std::make_shared<DelaySteps>(std::move(reader.steps_), reader.period_);
    }

private:
    static constexpr double kMostMs = 86'400'000;
    static constexpr double kMostDelayMs = 30'000;

    // Returns false if the line is invalid.
    bool add(const std::string& line) {
        std::istringstream words(line);
        std::vector<double> values;
        for (std::string word; words >> word;) {
            std::size_t end = 0;
            try {
                values.push_back(std::stod(word, &end));
            } catch (const std::exception&) {
                return false;
            }
            if (end != word.size() || !std::isfinite(values.back())) return false;
        }
        if (values.empty()) return true;
        if (values.size() > 2 || period_.ns != 0 || values[0] < 0 || values[0] > kMostMs) return false;
        const Instant at = Instant{} + Duration::from_s(values[0] / 1000);
        if (steps_.empty() ? at.ns != 0 : at <= steps_.back().at) return false;
        if (values.size() == 1) {
            period_ = at - Instant{};
            return period_.ns != 0;
        }
        if (!(values[1] > 0) || values[1] > kMostDelayMs) return false;
        steps_.push_back({at, Duration::from_s(values[1] / 1000)});
        return true;
    }

    std::vector<DelayStep> steps_;
    Duration period_{};
};

}  // namespace ccatune
