// Numbers as people write them. Every function throws a UsageError that gives a right example.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

double parse_number(std::string_view);         // 0.5, 1e-3
std::int64_t parse_integer(std::string_view);  // -3
bool parse_flag(std::string_view);             // on/off, true/false, yes/no, 1/0
std::uint64_t parse_size(std::string_view);  // bytes: 64, 4K = 4KiB = 4096, 4KB = 4000, 1.5M, 2GiB
double parse_duration(std::string_view);  // seconds: 100ms, 50us, 20ns, 2s, 1.5min; bare: seconds
double parse_rate(std::string_view);      // bytes a second: 10Gbps, 100Mbit, 8kbps

}  // namespace lockstep
