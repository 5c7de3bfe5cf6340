// arrays:DIR: x.npy and y.npy of any shape (audio, volumes, features), with x_test.npy and
// y_test.npy or a part at the end held out to test with. Files of NumPy: numbers only, in C order;
// what would have to be unpickled is refused.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/error.h"
#include "core/json_text.h"
#include "data/array_dataset.h"
#include "data/open.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};
LOCKSTEP_JSON_FIELDS(Header, descr, fortran_order, shape)

// The header is a Python dictionary with three keys:
// {'descr': '<f4', 'fortran_order': False, 'shape': (60, 28, 28), }
// JSON has other quotes, brackets and words, and no comma before a bracket that closes.
std::string json_of(std::string_view python) {
  std::string json;
  for (; !python.empty(); python.remove_prefix(1)) {
    const char c = python[0];
    if (c == ')' || c == '}') json.erase(json.find_last_not_of(", \n") + 1);
    const bool word = python.starts_with("True") || python.starts_with("False");
    json += c == '\''  ? '"'
            : c == '(' ? '['
            : c == ')' ? ']'
            : word     ? static_cast<char>(c | 32)
                       : c;
  }
  return json;
}

Header header_in(std::string_view python, const std::string& where) {
  using nlohmann::json;
  const auto header = json_in<json>(json_of(python));
  if (header.is_object() && header.value("descr", json()).is_array())
    throw UsageError(where + " holds records: save one array of plain numbers");
  try {
    if (header.size() == 3 && std::ranges::all_of(header.at("shape"), [](const json& extent) {
          return extent.is_number_unsigned();
        }))
      return header.get<Header>();
  } catch (const json::exception&) {
  }
  throw UsageError(where + ": its .npy header is damaged");
}

Element element_of(std::string_view type, const std::string& where) {
  constexpr struct {
    std::string_view name;
    Element element;
  } kTypes[] = {{"b1", Element::u8},  {"u1", Element::u8},  {"i1", Element::i8},
                {"u2", Element::u16}, {"i2", Element::i16}, {"u4", Element::u32},
                {"i4", Element::i32}, {"u8", Element::u64}, {"i8", Element::i64},
                {"f2", Element::f16}, {"f4", Element::f32}, {"f8", Element::f64}};
  for (const auto& row : kTypes)
    if (row.name == type) return row.element;
  if (type.starts_with('O'))
    throw UsageError(where +
                     " holds Python objects, which are not unpickled here: save numbers, "
                     "such as array.astype('float32')");
  throw UsageError(
      fmt::format("{} holds numbers of type '{}': save b1, u1-u8, i1-i8 or f2-f8", where, type));
}

using std::filesystem::path;

struct Pair {
  std::shared_ptr<const FileBytes> file;
  RawArray x;
  std::vector<int> y;
};

Pair read_pair(const path& x_file, const path& y_file) {
  Pair pair;
  pair.file = std::make_shared<FileBytes>(x_file);
  pair.x = parse_npy(pair.file->bytes(), x_file.string());
  const FileBytes labels(y_file);
  pair.y = labels_in(parse_npy(labels.bytes(), y_file.string()), y_file.string());
  if (pair.y.size() != pair.x.count())
    throw UsageError(fmt::format("{} holds {} samples, {} {} labels", x_file.string(),
                                 pair.x.count(), y_file.string(), pair.y.size()));
  return pair;
}

std::unique_ptr<Dataset> part(const Pair& pair, std::size_t first, std::size_t count, int classes,
                              const Options& options) {
  Facts facts{{pair.x.dims.begin() + 1, pair.x.dims.end()},
              {pair.y.begin() + static_cast<std::ptrdiff_t>(first),
               pair.y.begin() + static_cast<std::ptrdiff_t>(first + count)},
              classes};
  if (facts.shape.empty()) facts.shape = {1};
  const Normal normal = normal_from(options, {}, facts.shape[0]);
  return std::make_unique<ArrayDataset>(std::move(facts), rows_of(pair.x, first, count, pair.file),
                                        normal);
}

std::size_t held_out(const Options& options, std::size_t samples) {
  const double share = options.number("test", .1);
  if (!(share > 0 && share < 1))
    throw UsageError("test of 'arrays' is the share of samples held out, such as 0.1");
  const double count = std::round(share * static_cast<double>(samples));
  if (samples < 2) throw UsageError("'arrays' needs x_test.npy, or 2 samples to hold one out");
  return std::clamp<std::size_t>(static_cast<std::size_t>(count), 1, samples - 1);
}

}  // namespace

RawArray parse_npy(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 12)
    throw UsageError(where + " is not an .npy file");
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(bytes[at]); };
  const std::size_t version = byte(6), start = version == 1 ? 10 : 12;
  if (version < 1 || version > 3)
    throw UsageError(fmt::format("{}: version {} of .npy is not known", where, version));
  const std::size_t length =
      byte(8) | byte(9) << 8 | (version > 1 ? byte(10) << 16 | byte(11) << 24 : 0);
  if (length > text.size() - start) throw UsageError(where + " ends inside its .npy header");
  const Header header = header_in(text.substr(start, length), where);
  const std::string_view descr = header.descr;
  const char order = descr.empty() ? ' ' : descr[0];
  if (std::string_view("<>|=").find(order) == std::string_view::npos)
    throw UsageError(where + ": its .npy header is damaged");
  if (header.fortran_order && header.shape.size() > 1)
    throw UsageError(where + " is in Fortran order: save numpy.ascontiguousarray(array)");
  return checked({element_of(descr.substr(1), where), order == '>', header.shape,
                  bytes.subspan(start + length)},
                 where);
}

Data open_arrays(const Options& options, const OpenRequest&) {
  const path folder = options.text("dir");
  const Pair train = read_pair(folder / "x.npy", folder / "y.npy");
  const int classes = *std::ranges::max_element(train.y) + 1;
  Data data;
  data.name = "arrays:" + folder.string();
  if (!exists(folder / "x_test.npy")) {
    const std::size_t test = held_out(options, train.y.size()), rest = train.y.size() - test;
    data.train = part(train, 0, rest, classes, options);
    data.test = part(train, rest, test, classes, options);
    return data;
  }
  if (options.has("test"))
    throw UsageError(fmt::format("{} holds x_test.npy: leave out test=", folder.string()));
  const Pair test = read_pair(folder / "x_test.npy", folder / "y_test.npy");
  data.train = part(train, 0, train.y.size(), classes, options);
  data.test = part(test, 0, test.y.size(), std::max(classes, *std::ranges::max_element(test.y) + 1),
                   options);
  return data;
}

}  // namespace lockstep
