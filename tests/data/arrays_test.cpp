// NumPy arrays and CIFAR-10: what is read, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "core/rng.h"
#include "data/files.h"
#include "data/open.h"
#include "data/raw_array.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing::write_file;

std::string npy(const std::string& dictionary, const std::string& body, char version = 1) {
  std::string file = "\x93NUMPY";
  file += {version, '\0', static_cast<char>(dictionary.size() & 255),
           static_cast<char>(dictionary.size() >> 8)};
  if (version > 1) file += std::string(2, '\0');
  return file + dictionary + body;
}

std::string header(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }  \n";
}

template <class T>
std::string raw(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

RawArray parse(const std::string& file) {
  return parse_npy(std::as_bytes(std::span(file)), "file");
}

std::vector<float> numbers_in(const std::string& file) {
  const RawArray array = parse(file);
  std::vector<float> numbers(array.body.size() / size_of(array.element));
  to_floats(array.element, array.swapped, array.body.data(), numbers.size(), numbers.data());
  return numbers;
}

TEST(Npy, ReadsEveryTypeOfNumber) {
  const auto file = [](const char* type, const std::string& body) {
    return npy(header(type, "(2,)"), body);
  };
  EXPECT_THAT(numbers_in(file("<f4", raw<float>({1.5, -2}))), ElementsAre(1.5, -2));
  EXPECT_THAT(numbers_in(file("<f8", raw<double>({1.5, -2}))), ElementsAre(1.5, -2));
  EXPECT_THAT(numbers_in(file("<f2", raw<_Float16>({1.5, -2}))), ElementsAre(1.5, -2));
  EXPECT_THAT(numbers_in(file("|u1", raw<std::uint8_t>({1, 255}))), ElementsAre(1, 255));
  EXPECT_THAT(numbers_in(file("|i1", raw<std::int8_t>({1, -1}))), ElementsAre(1, -1));
  EXPECT_THAT(numbers_in(file("|b1", raw<std::uint8_t>({1, 0}))), ElementsAre(1, 0));
  EXPECT_THAT(numbers_in(file("<u2", raw<std::uint16_t>({1, 65535}))), ElementsAre(1, 65535));
  EXPECT_THAT(numbers_in(file("<i4", raw<std::int32_t>({1, -7}))), ElementsAre(1, -7));
  EXPECT_THAT(numbers_in(file("<i8", raw<std::int64_t>({1, -7}))), ElementsAre(1, -7));
  EXPECT_THAT(numbers_in(file(">i2", std::string("\1\2\0\3", 4))), ElementsAre(258, 3));
}

TEST(Npy, ReadsHeadersAsNumpyWritesThem) {
  EXPECT_THAT(parse(npy(header("<f4", "(2, 3)"), std::string(24, 0), 2)).dims, ElementsAre(2, 3));
  EXPECT_THAT(parse(npy("{\"shape\":(1,2),\"fortran_order\":False,\"descr\":\"|u1\"}", "ab")).dims,
              ElementsAre(1, 2));
}

struct Bad {
  std::string name, file, said;
  friend void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }
};
class BadNpy : public ::testing::TestWithParam<Bad> {};

TEST_P(BadNpy, IsRefused) {
  EXPECT_THAT([] { parse(GetParam().file); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("file"), HasSubstr(GetParam().said))));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadNpy,
    ::testing::Values(
        Bad{"empty", "", "not an .npy file"}, Bad{"zip", "PK\3\4 and so on", "not an .npy file"},
        Bad{"version", npy(header("<f4", "(1,)"), "1234", 9), "version 9"},
        Bad{"header_cut", npy(header("<f4", "(1,)"), "").substr(0, 40), "ends inside"},
        Bad{"garbage", npy("hello", ""), "header is damaged"},
        Bad{"key_missing", npy("{'descr': '<f4', 'shape': (1,)}", "1234"), "header is damaged"},
        Bad{"key_twice", npy("{'shape': (1,), 'shape': (1,)}", "1234"), "header is damaged"},
        Bad{"negative", npy(header("<f4", "(-1,)"), "1234"), "header is damaged"},
        Bad{"no_number", npy(header("<f4", "(one,)"), "1234"), "header is damaged"},
        Bad{"scalar", npy(header("<f4", "()"), "1234"), "4 bytes follow"},
        Bad{"short", npy(header("<f4", "(2,)"), "1234"), "4 bytes follow"},
        Bad{"zero", npy(header("<f4", "(0, 3)"), ""), "holds no samples"},
        Bad{"overflow", npy(header("<f4", "(4611686018427387904, 4)"), ""), "0 bytes follow"},
        Bad{"beyond", npy(header("<f4", "(99999999999999999999999,)"), ""), "damaged"},
        Bad{"objects", npy(header("|O", "(1,)"), "12345678"), "not unpickled"},
        Bad{"records", npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", ""),
            "holds records"},
        Bad{"text", npy(header("<U4", "(1,)"), "12345678"), "type 'U4'"},
        Bad{"no_order", npy(header("f4", "(1,)"), "1234"), "damaged"},
        Bad{"fortran", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234"),
            "numpy.ascontiguousarray"}),
    [](const auto& info) { return info.param.name; });

TEST(Npy, MutatedBytesAreReadOrRefusedAndNeverCrash) {
  Rng rng(1, 0, 1);
  const std::string good = npy(header("<i2", "(3, 2)"), "abcdefghijkl");
  for (int round = 0; round < 20000; ++round) {
    std::string file = good.substr(0, rng.below(4) == 0 ? rng.below(good.size() + 1) : good.size());
    for (std::uint64_t n = rng.below(4); n > 0 && !file.empty(); --n)
      file[rng.below(file.size())] =
          static_cast<char>(rng.below(2) ? rng() : "0123456789'(),:"[rng.below(15)]);
    try {
      numbers_in(file);
    } catch (const UsageError&) {
    }
  }
}

// Samples of 2 numbers, counting on, with labels 0, 1, 0, …
void write_arrays(const Folder& folder, int samples, const std::string& suffix = "") {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (int i = 0; i < 2 * samples; ++i) x.push_back(static_cast<float>(i));
  for (int i = 0; i < samples; ++i) y.push_back(i % 2);
  const std::string count = std::to_string(samples);
  write_file(folder / ("x" + suffix + ".npy"), npy(header("<f4", "(" + count + ", 2)"), raw(x)));
  write_file(folder / ("y" + suffix + ".npy"), npy(header("<i8", "(" + count + ",)"), raw(y)));
}

TEST(Arrays, HoldOutTheLastTenth) {
  const Folder folder;
  write_arrays(folder, 20);
  const Data data = open_data(folder.text(), {});
  EXPECT_EQ(data.name, "arrays:" + folder.text());
  EXPECT_EQ(data.train->size(), 18u);
  EXPECT_EQ(data.test->size(), 2u);
  EXPECT_EQ(data.train->classes(), 2);
  float x[2];
  data.test->read(std::array{1u}, 0, x);
  EXPECT_THAT(x, ElementsAre(38, 39));
}

TEST(Arrays, HoldOutAsMuchAsAskedFor) {
  const Folder folder;
  write_arrays(folder, 20);
  EXPECT_EQ(open_data("arrays:" + folder.text() + ",test=0.5", {}).test->size(), 10u);
  EXPECT_THROW(open_data("arrays:" + folder.text() + ",test=1", {}), UsageError);
}

TEST(Arrays, UseATestSetWhereThereIsOne) {
  const Folder folder;
  write_arrays(folder, 20);
  write_arrays(folder, 6, "_test");
  const Data data = open_data("arrays:" + folder.text() + ",mean=1,3,deviation=2", {});
  EXPECT_EQ(data.train->size(), 20u);
  EXPECT_EQ(data.test->size(), 6u);
  float x[2];
  data.test->read(std::array{5u}, 0, x);
  EXPECT_THAT(x, ElementsAre(4.5, 4));
}

TEST(Arrays, RefuseLabelsThatAreNoClasses) {
  const Folder folder;
  write_arrays(folder, 2);
  const auto with_labels = [&](const std::string& file) {
    write_file(folder / "y.npy", file);
    open_data(folder.text(), {});
  };
  EXPECT_THAT(
      [&] {
        with_labels(npy(header("<f4", "(2,)"), raw<float>({0, .5})));
      },
      ThrowsMessage<UsageError>(HasSubstr("label 0.5 of sample 1")));
  EXPECT_THAT(
      [&] {
        with_labels(npy(header("<i4", "(2,)"), raw<int>({-1, 0})));
      },
      ThrowsMessage<UsageError>(HasSubstr("label -1 of sample 0")));
  EXPECT_THAT(
      [&] {
        with_labels(npy(header("<f4", "(2,)"), raw<float>({0, NAN})));
      },
      ThrowsMessage<UsageError>(HasSubstr("is not a class")));
  EXPECT_THAT([&] { with_labels(npy(header("|u1", "(2, 2)"), "abcd")); },
              ThrowsMessage<UsageError>(HasSubstr("one number a sample")));
  EXPECT_THAT([&] { with_labels(npy(header("|u1", "(3,)"), "abc")); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("2 samples"), HasSubstr("3 labels"))));
}

TEST(Arrays, RefuseTestSamplesOfOtherClassesOrShape) {
  const Folder folder;
  write_arrays(folder, 2);
  write_arrays(folder, 2, "_test");
  write_file(folder / "y_test.npy", npy(header("|u1", "(2,)"), std::string("\0\2", 2)));
  EXPECT_THAT([&] { open_data(folder.text(), {}); },
              ThrowsMessage<UsageError>(HasSubstr("have 3 classes, those to train on 2")));
  write_file(folder / "x_test.npy", npy(header("|u1", "(2, 1)"), "ab"));
  EXPECT_THAT([&] { open_data(folder.text(), {}); }, ThrowsMessage<UsageError>(HasSubstr("shape")));
}

// Two records a file; pixel p of record r of file f is f + r + p.
void write_cifar(const Folder& folder) {
  int file = 0;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    std::string bytes;
    for (int record = 0; record < 2; ++record) {
      bytes += static_cast<char>(file + record);
      for (int p = 0; p < 3072; ++p) bytes += static_cast<char>(file + record + p);
    }
    write_file(folder / name, bytes);
    ++file;
  }
}

TEST(Cifar10, ReadsAndNormalisesByChannel) {
  const Folder folder;
  write_cifar(folder);
  const Data data = open_data(folder.text() + ":augment=off", {});
  EXPECT_EQ(data.train->size(), 10u);
  EXPECT_THAT(data.train->labels(), ElementsAre(0, 1, 1, 2, 2, 3, 3, 4, 4, 5));
  std::vector<float> x(3072);
  data.train->read(std::array{3u}, 0, x.data());
  EXPECT_EQ(x[0], (2 / 255.f - .4914f) / .247f);
  EXPECT_EQ(x[1024], (2 / 255.f - .4822f) / .2435f);
  EXPECT_EQ(x[3071], ((3073 % 256) / 255.f - .4465f) / .2616f);
}

TEST(Cifar10, AugmentsByVariationAndSampleAlone) {
  const Folder folder;
  write_cifar(folder);
  const Data data = open_data(folder.text(), {});
  const auto read = [&](const Dataset& set, std::vector<std::uint32_t> indices, int variation) {
    std::vector<float> x(indices.size() * 3072);
    set.read(indices, variation, x.data());
    return std::vector<float>(x.end() - 3072, x.end());
  };
  EXPECT_EQ(read(*data.train, {3}, 1), read(*data.train, {5, 0, 3}, 1));
  EXPECT_NE(read(*data.train, {3}, 1), read(*data.train, {3}, 2));
  EXPECT_EQ(read(*data.test, {1}, 1), read(*data.test, {1}, 2));
}

TEST(Cifar10, MovesByAFewPixelsAndMirrors) {
  const Folder folder;
  write_cifar(folder);
  const Data moved = open_data(folder.text(), {}),
             still = open_data(folder.text() + ":augment=off", {});
  std::vector<float> a(3072), b(3072);
  still.train->read(std::array{0u}, 0, a.data());
  bool mirrored = false, straight = false;
  for (int variation = 0; variation < 20; ++variation) {
    moved.train->read(std::array{0u}, variation, b.data());
    const float step = (b[16 * 32 + 17] - b[16 * 32 + 16]) / (a[1] - a[0]);
    mirrored = mirrored || step < 0;
    straight = straight || step > 0;
  }
  EXPECT_TRUE(mirrored && straight);
}

TEST(Cifar10, RefusesAFileThatWasCutOffOrHoldsNoClass) {
  const Folder folder;
  write_cifar(folder);
  write_file(folder / "data_batch_3.bin", std::string(3073 + 100, 1));
  EXPECT_THAT(
      [&] { open_data(folder.text(), {}); },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("not a multiple"))));
  write_file(folder / "data_batch_3.bin", std::string(3073, 17));
  EXPECT_THAT([&] { open_data(folder.text(), {}); },
              ThrowsMessage<UsageError>(HasSubstr("sample 0 is of class 17")));
}

}  // namespace
}  // namespace lockstep
