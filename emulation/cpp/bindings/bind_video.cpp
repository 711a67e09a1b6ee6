// SPDX-License-Identifier: MIT
// Bindings for videos, and for tests of the ABR algorithms and of a player by itself.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "video/player.hpp"
#include "video/video.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ccatune;

namespace {

Abr abr_of(const std::string& name) {
    if (name == "fixed") return Abr::fixed;
    if (name == "bola") return Abr::bola;
    if (name == "mpc") return Abr::mpc;
    if (name == "robust-mpc") return Abr::robust_mpc;
    if (name == "fast-mpc") return Abr::fast_mpc;
    throw std::invalid_argument("abr: expected fixed, bola, mpc, robust-mpc or fast-mpc, got " + name);
}

// Checks what the other code relies on, so that no call from Python reads beyond the end of an array.
void check(const Video& video) {
    const std::size_t bitrates = video.bitrates_kbps.size();
    if (bitrates == 0 || video.sizes_bytes.empty() || video.sizes_bytes.size() % bitrates != 0)
        throw std::invalid_argument("sizes_bytes: expected for each chunk a size of each bitrate");
    if (video.first >= bitrates) throw std::invalid_argument("first: expected the number of a bitrate");
    if (video.chunk.ns <= 0 || video.most_buffer < video.chunk)
        throw std::invalid_argument("most_buffer_s: expected room for a chunk");
}

std::pair<std::uint32_t, double> chosen(const Video& video, std::uint32_t next, double buffer_s, std::uint32_t last,
                                        std::vector<double> measured_mbps) {
    if (next == 0 || next >= video.chunks() || last >= video.bitrates_kbps.size() || measured_mbps.empty())
        throw std::invalid_argument("expected a chunk after the first, and the measurements before it");
    const Choice choice = choose(video, {next, Duration::from_s(buffer_s), last, std::move(measured_mbps)});
    return {choice.bitrate, choice.wait_for.s()};
}

Dict chunk_dict(const ChunkResult& chunk) {
    Dict out;
    out["bitrate_kbps"] = chunk.bitrate_kbps;
    out["size_bytes"] = chunk.size_bytes;
    out["start_ns"] = chunk.start.ns;
    out["complete_ns"] = chunk.complete.ns;
    out["rebuffer_ns"] = chunk.rebuffer.ns;
    out["buffer_ns"] = chunk.buffer.ns;
    return out;
}

}  // namespace

void bind_video(nb::module_& m);
void bind_video(nb::module_& m) {
    nb::class_<Video>(m, "Video", "A video in chunks, its bitrates, and the algorithm that chooses among them.")
        .def(
            "__init__",
            [](Video* self, const std::string& abr, std::vector<std::uint32_t> bitrates_kbps,
               std::vector<std::uint32_t> sizes_bytes, double chunk_s, double most_buffer_s, std::uint32_t first,
               std::uint32_t page_bytes, double rebuffer_penalty_mbps, double switch_penalty) {
                Video video{.abr = abr_of(abr),
                            .bitrates_kbps = std::move(bitrates_kbps),
                            .sizes_bytes = std::move(sizes_bytes),
                            .chunk = Duration::from_s(chunk_s),
                            .most_buffer = Duration::from_s(most_buffer_s),
                            .first = first,
                            .page_bytes = page_bytes,
                            .rebuffer_penalty_mbps = rebuffer_penalty_mbps,
                            .switch_penalty = switch_penalty};
                check(video);
                new (self) Video(std::move(video));
            },
            "abr"_a, "bitrates_kbps"_a, "sizes_bytes"_a, "chunk_s"_a, "most_buffer_s"_a, "first"_a = 0u,
            "page_bytes"_a = 0u, "rebuffer_penalty_mbps"_a = 4.3, "switch_penalty"_a = 1.0,
            "sizes_bytes: chunk by chunk, of each its bitrates in order. first: the number of chunk 0's bitrate.")
        .def("choose", &chosen, "next"_a, "buffer_s"_a, "last"_a, "measured_mbps"_a,
             "The number of the bitrate, and the seconds of buffer that the request waits for.");
    nb::class_<Player>(m, "LonePlayer", "A player by itself.")
        .def(
            "__init__", [](Player* self, std::shared_ptr<Video> video) { new (self) Player(std::move(video)); },
            "video"_a)
        .def(
            "begin", [](Player& self, std::int64_t now_ns) { return self.begin(Instant{now_ns}); }, "now_ns"_a,
            "The next request arrives: its bytes.")
        .def(
            "complete", [](Player& self, std::int64_t now_ns) { return self.complete(Instant{now_ns}).ns; },
            "now_ns"_a, "All of it has come: when the next request arrives.")
        .def_prop_ro("is_over", &Player::is_over)
        .def_prop_ro("chunks", [](const Player& self) {
            nb::typed<nb::list, Dict> out;
            for (const ChunkResult& chunk : self.chunks()) out.append(chunk_dict(chunk));
            return out;
        });
}
