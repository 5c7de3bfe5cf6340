// What every message format promises (compressor.h), over the whole table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "core/error.h"
#include "specs.h"

namespace lockstep {
namespace {

class MessageContract : public ::testing::TestWithParam<std::string> {
 protected:
  const Compression compression_ = compression(GetParam());
  const std::unique_ptr<Compressor> code_ = compression_.make();
  const Draw draw_{7, 2, 11, 3, 0};

  bool is_vote() const { return compression_.averaging == Averaging::voted; }
};

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, MessageContract, ::testing::ValuesIn(message_specs()), test_name);

TEST_P(MessageContract, IsOffByNoMoreThanItSays) {
  for (const std::size_t n : odd_sizes()) {
    const Numbers v = normal_numbers(n, n);
    const Message message = encoded(*code_, v, draw_);
    EXPECT_LE(message.size, code_->most_bytes(n));
    const Numbers back = decoded(*code_, message, n, draw_);
    if (compression_.lossless) {
      EXPECT_EQ(back, v) << n;
    }
    if (compression_.draws || is_vote()) continue;  // bounds of means: see statistics_test
    EXPECT_LE(squared_distance(v, back),
              compression_.squared_error(n) * squared_norm(v) * (1 + 1e-4) + 1e-12)
        << n;
  }
}

// In every draw, and where numbers are too small for what they lose to be a part of them.
TEST_P(MessageContract, IsNeverOffByMoreThanTheMostItSays) {
  if (is_vote()) return;
  for (const std::size_t n : odd_sizes())
    for (const float size : {1.f, 1e-6f, 1e-9f, 1e-35f}) {
      Numbers v = normal_numbers(n, n);
      for (float& x : v) x *= size;
      for (std::uint64_t step = 0; step < (compression_.draws ? 20u : 1u); ++step) {
        const Draw draw{7, 2, step};
        const Numbers back = decoded(*code_, encoded(*code_, v, draw), n, draw);
        EXPECT_LE(std::sqrt(squared_distance(v, back)),
                  (compression_.most_error(n) * std::sqrt(squared_norm(v)) +
                   compression_.most_error_of_each * std::sqrt(n)) *
                          (1 + 1e-4) +
                      static_cast<double>(n) * FLT_MIN)
            << n << " " << size;
      }
    }
}

TEST_P(MessageContract, AddsWhatItDecodesTimesAFactor) {
  for (const std::size_t n : odd_sizes()) {
    const Message message = encoded(*code_, normal_numbers(n, 1), draw_);
    const Numbers once = decoded(*code_, message, n, draw_);
    Numbers sum(n, 0.f), base = normal_numbers(n, 2), expected = base;
    code_->add(message.bytes(), draw_, 1, values(sum));
    EXPECT_EQ(sum, once) << "added to zeros, " << n;
    code_->add(message.bytes(), draw_, -1, values(sum));
    EXPECT_EQ(sum, Numbers(n, 0.f)) << "and taken away again";
    code_->add(message.bytes(), draw_, 0.5f, values(base));
    for (std::size_t i = 0; i < n; ++i) expected[i] += 0.5f * once[i];
    EXPECT_EQ(base, expected) << "a half is exact";
  }
}

// So long that results are written past the caches, at any address.
constexpr std::size_t kLong = (4 << 20) + 999;

Numbers long_numbers() {
  const Numbers pattern = normal_numbers(4099, 8);
  Numbers v(kLong);
  for (std::size_t i = 0; i < kLong; ++i) v[i] = pattern[i % pattern.size()];
  return v;
}

TEST_P(MessageContract, LongMessagesDecodeToWhatTheyAdd) {
  const Message message = encoded(*code_, long_numbers(), draw_);
  Numbers sum(kLong), once(kLong + 4, 5.f);
  code_->add(message.bytes(), draw_, 1, values(sum));
  for (const std::size_t at : {0u, 1u, 3u}) {
    code_->decode(message.bytes(), draw_, {once.data() + at, kLong, Type::fp32});
    EXPECT_TRUE(std::equal(sum.begin(), sum.end(), once.begin() + static_cast<int>(at))) << at;
    EXPECT_EQ(once.back(), 5.f);
  }
}

// Of what is encoded by itself.
TEST(Messages, LongOnesSayWhatShortOnesDo) {
  for (const char* spec : {"fp16", "bf16", "int8", "onebit"}) {
    const auto code = compression(spec).make();
    const Numbers v = long_numbers();
    const Numbers all = decoded(*code, encoded(*code, v), kLong);
    for (std::size_t begin = 0; begin < kLong; begin += 1 << 18) {
      const auto first = v.begin() + static_cast<std::ptrdiff_t>(begin);
      const Numbers part(first,
                         first + static_cast<int>(std::min<std::size_t>(1 << 18, kLong - begin)));
      const Numbers back = decoded(*code, encoded(*code, part), part.size());
      EXPECT_TRUE(
          std::equal(back.begin(), back.end(), all.begin() + static_cast<std::ptrdiff_t>(begin)))
          << spec << " from " << begin;
    }
  }
}

TEST_P(MessageContract, EncodesTheSameBitsForTheSameDrawAndLeavesNumbersAlone) {
  const Numbers v = normal_numbers(4099, 3);
  Numbers given = v;
  Message first = room_for(*code_, v.size());
  first.size = code_->encode(values(given), first.room(), draw_);
  EXPECT_EQ(given, v);
  const auto other = compression_.make();
  encoded(*other, normal_numbers(100, 4), draw_);  // what came before does not matter
  const Message second = encoded(*other, v, draw_);
  EXPECT_EQ(second.size, first.size);
  EXPECT_EQ(second.words, first.words);
  Draw later = draw_;
  later.step += 1;
  const bool differs = encoded(*code_, v, later).words != first.words;
  EXPECT_EQ(differs, compression_.draws && !compression_.lossless);
}

TEST_P(MessageContract, NeverLosesANanOrAnInfinity) {
  for (const std::size_t n : {1u, 7u, 700u, 70001u}) {
    const Numbers good = normal_numbers(n, 5);
    for (const float bad : {NAN, -NAN, INFINITY, -INFINITY})
      for (const std::size_t at : {n / 2, n - 1}) {
        Numbers v = good;
        v[at] = bad;
        const Numbers back = decoded(*code_, encoded(*code_, v, draw_), n, draw_);
        EXPECT_FALSE(std::ranges::all_of(back, [](float x) { return std::isfinite(x); }))
            << bad << " at " << at << " of " << n;
      }
  }
}

TEST_P(MessageContract, EncodesZerosEqualAndExtremeNumbers) {
  for (const std::size_t n : {1u, 9u, 600u, 70001u}) {
    const Numbers zeros(n, 0.f);
    if (!is_vote()) {
      EXPECT_EQ(decoded(*code_, encoded(*code_, zeros, draw_), n, draw_), zeros);
    }
    for (const float x : {2.f, -2.f, 1e-30f, 1e-41f, 1e30f}) {
      const Numbers equal(n, x);
      const Numbers back = decoded(*code_, encoded(*code_, equal, draw_), n, draw_);
      if (compression_.draws || is_vote() || compression_.type == Type::fp16) continue;
      EXPECT_LE(squared_distance(equal, back),
                compression_.squared_error(n) * squared_norm(equal) * (1 + 1e-4) + 1e-58)
          << x << " " << n;
    }
  }
}

TEST_P(MessageContract, HollowNumbersHaveALengthAndNothingElse) {
  for (const std::size_t n : odd_sizes()) {
    const Values hollow = Values::hollow(n, Type::fp32);
    const std::size_t bytes = code_->encode(hollow, {nullptr, code_->most_bytes(n)}, draw_);
    EXPECT_LE(bytes, code_->most_bytes(n));
    if (GetParam().find("threshold") == std::string::npos) {
      EXPECT_EQ(bytes, encoded(*code_, normal_numbers(n, 6), draw_).size) << n;
    }
    code_->decode({nullptr, bytes}, draw_, hollow);
    Numbers into(n, 5.f);
    code_->add({nullptr, bytes}, draw_, 1, values(into));
    EXPECT_EQ(into, Numbers(n, 5.f));
  }
}

// Before anything is written.
TEST_P(MessageContract, RefusesMessagesOfAWrongLength) {
  for (const std::size_t n : odd_sizes()) {
    Message message = encoded(*code_, normal_numbers(n, 7), draw_);
    message.words.resize(message.words.size() + 4);
    const std::size_t right = message.size;
    for (const std::size_t wrong : {std::size_t{1}, right - 1, right + 1, right + 3}) {
      if (wrong == right || wrong > right + 4) continue;
      message.size = wrong;
      Numbers into(n, 5.f);
      try {
        code_->decode(message.bytes(), draw_, values(into));
        ADD_FAILURE() << wrong << " bytes for " << n;
      } catch (const TransportError& error) {
        EXPECT_EQ(error.kind(), TransportError::Kind::mismatch);
        EXPECT_EQ(error.peer(), draw_.rank);
        EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 2 sent"));
      }
      EXPECT_EQ(into, Numbers(n, 5.f));
    }
  }
}

// Of the right length any bytes either decode or are refused; sanitizers see what is out of bounds.
TEST_P(MessageContract, AnyBytesDecodeOrAreRefused) {
  Rng random(8, 0, purpose_of("bytes"));
  for (int i = 0; i < 300; ++i) {
    const std::size_t n = 1 + random.below(2000);
    Message message = room_for(*code_, n);
    message.size = code_->most_bytes(n);
    for (auto& word : message.words) word = static_cast<std::uint32_t>(random());
    // In sparse messages: mostly good indices.
    if (i % 2 == 0)
      for (std::size_t k = 0; k < message.words.size() / 2; ++k)
        message.words[k] = static_cast<std::uint32_t>(k + random.below(2));
    Numbers into(n);
    try {
      code_->decode(message.bytes(), draw_, values(into));
      code_->add(message.bytes(), draw_, 2, values(into));
    } catch (const TransportError&) {
      EXPECT_EQ(into, Numbers(n));
    }
  }
}

TEST(Messages, AreAsLongAsTheirFormulasSay) {
  const std::size_t n = 1234;
  const auto bytes = [&](const char* spec) {
    const auto code = compression(spec).make();
    return encoded(*code, normal_numbers(n, 1)).size;
  };
  EXPECT_EQ(bytes("fp16"), 2 * n);
  EXPECT_EQ(bytes("bf16"), 2 * n);
  EXPECT_EQ(bytes("int8"), 4 * 3 + n);
  EXPECT_EQ(bytes("int8:bucket=100"), 4 * 13 + n);
  EXPECT_EQ(bytes("qsgd"), 4 * 3 + n);
  EXPECT_EQ(bytes("qsgd:levels=7,bucket=1234"), 4 + n / 2) << "4 bits";
  EXPECT_EQ(bytes("qsgd:levels=3,bucket=1234"), 4 + 463) << "3 bits, 462.75 bytes";
  EXPECT_EQ(bytes("terngrad"), 4 + 309) << "2 bits, 308.5 bytes";
  EXPECT_EQ(bytes("onebit"), 8 * 3 + 155) << "154.25 bytes";
  EXPECT_EQ(bytes("sign"), 4 + 155);
  EXPECT_EQ(bytes("topk"), 8 * 13) << "12.34 numbers";
  EXPECT_EQ(bytes("topk:ratio=0.01,chunk=100"), 8 * (12 + 1)) << "at least one of each chunk";
  EXPECT_EQ(bytes("randomk"), 4 * 13);
  EXPECT_EQ(bytes("threshold"), 8 * n);
}

TEST(Messages, NeedRoomRightNumbersAndAnAlignedAddress) {
  const auto code = compression("int8").make();
  Numbers v = normal_numbers(100, 1);
  Message message = room_for(*code, 100);
  EXPECT_THROW(code->encode(values(v), {message.room().data, 50}, {}), InternalError);
  EXPECT_THROW(code->encode({v.data(), 50, Type::fp64}, message.room(), {}), InternalError);
  message.words.resize(message.words.size() + 1);
  EXPECT_THROW(code->encode(values(v), {message.room().data + 1, 104}, {}), InternalError);
}

TEST(Messages, SparseIndicesMustAscendWithinBounds) {
  const auto code = compression("topk:ratio=0.5").make();
  const Draw of{0, 9};
  const auto refuses = [&](std::vector<std::uint32_t> indices) {
    Message message{std::move(indices), 0};
    message.words.resize(2 * message.words.size());
    message.size = 4 * message.words.size();
    Numbers into(10, 5.f);
    EXPECT_THROW(code->add(message.bytes(), of, 1, values(into)), TransportError);
    EXPECT_EQ(into, Numbers(10, 5.f));
  };
  refuses({10});
  refuses({0xffffffff});
  refuses({3, 3});
  refuses({4, 3});
  refuses({0, 1, 2, 3, 4, 5});  // more than a half
}

}  // namespace
}  // namespace lockstep
