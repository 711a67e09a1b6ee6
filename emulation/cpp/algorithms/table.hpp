// SPDX-License-Identifier: MIT
// An ensemble in memory, which the core parsed from its text.
// A kernel that receives this text holds the same table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "ensemble_flow.h"
#include "ensemble_format.h"

namespace ccatune {

class TableError : public std::exception {
public:
    // complete: the text was wrong; otherwise it was cut short.
    TableError(int error_number, std::uint32_t line, bool complete)
        : errno_(error_number), line_(line), complete_(complete) {
        text_ = "ensemble text: refused in line " + std::to_string(line) + " with errno " + std::to_string(errno_);
    }
    const char* what() const noexcept override { return text_.c_str(); }
    int error_number() const { return errno_; }
    std::uint32_t line() const { return line_; }
    bool complete() const { return complete_; }

private:
    int errno_;
    std::uint32_t line_;
    bool complete_;
    std::string text_;
};

class Table {
public:
    Table(std::string_view text, std::uint32_t id) {
        ens_parser parser;
        parse(parser, text, id);
        if (parser.error) throw TableError(-parser.error, parser.line_no, true);
        if (!ens_is_complete(&parser)) throw TableError(CCA_EINVAL, parser.line_no + 1, false);
        table_.generation = 1;
    }
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    const ens_table& table() const { return table_; }

    std::string text() const {
        std::string text;
        char line[ENS_MAX_LINE];
        for (u32 i = 0; i < ens_lines(&table_); ++i) text.append(line, ens_format_line(&table_, i, line, sizeof(line)));
        return text;
    }

    // Returns the bytes up to the end of the table or of `clear`, whatever follows.
    // 0 if the text contains no such end.
    static std::size_t text_end(std::string_view text, std::uint32_t id) {
        Table table;
        ens_parser parser;
        table.parse(parser, text, id, true);
        return ens_has_ended(&parser) ? parser.text_bytes : 0;
    }

private:
    Table() = default;

    // up_to_its_end: text after the table is ignored; otherwise it is an error.
    void parse(ens_parser& parser, std::string_view text, std::uint32_t id, bool up_to_its_end = false) {
        ens_parser_init(&parser, &table_, id);
        while (!text.empty() && !(up_to_its_end && ens_has_ended(&parser))) {
            const int taken = ens_parse(&parser, text.data(), static_cast<std::uint32_t>(text.size()));
            if (taken < 0) return;
            text.remove_prefix(static_cast<std::size_t>(taken));
            if (ens_needs_values(&parser)) {
                values_.resize(ens_values_bytes(&table_) / sizeof(u32));
                ens_give_values(&parser, values_.data());
            }
        }
    }

    ens_table table_{};
    std::vector<u32> values_;
};

// The ensemble that a flow follows, if there is one, and the ends of the flow's epochs.
struct Following {
    std::shared_ptr<const Table> followed;
    std::uint8_t delay_class;
    // Fixed per flow. It decides whether the flow is held back, that is, does not use the table.
    std::uint32_t hash;
    std::vector<EpochTurn> turns{};

    const ens_table* table() const { return followed ? &followed->table() : nullptr; }

    // Call after each ACK.
    void note(const ens_flow& ens, std::uint64_t now_us) {
        if (ens.epoch_end != ENS_WAITED) [[unlikely]]
            turns.push_back({now_us, ens.clock.measured_bytes_per_s, ens.clock.epoch, ens.clock.state, ens.epoch_end});
    }
};

}  // namespace ccatune
