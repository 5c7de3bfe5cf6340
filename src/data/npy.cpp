#include "data/npy.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "core/error.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// The header is a Python dictionary with three keys:
// {'descr': '<f4', 'fortran_order': False, 'shape': (60, 28, 28), }
class Header {
 public:
  Header(std::string_view text, const std::string& where) : rest_(text), where_(where) {
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !descr_)
        descr_ = is_next('[') ? refuse_records() : quoted();
      else if (key == "fortran_order" && !fortran_)
        fortran_ = word() == "True";
      else if (key == "shape" && !dims_)
        dims_ = tuple();
      else
        fail();
      if (!take(',') && !is_next('}')) fail();
    }
    skip_spaces();
    if (!rest_.empty() || !descr_ || !fortran_ || !dims_) fail();
  }

  std::string_view descr() const { return *descr_; }
  bool fortran() const { return *fortran_; }
  const std::vector<std::uint64_t>& dims() const { return *dims_; }

 private:
  [[noreturn]] void fail() const { throw UsageError(where_ + ": its .npy header is damaged"); }
  [[noreturn]] std::string_view refuse_records() const {
    throw UsageError(where_ + " holds records: save one array of plain numbers");
  }

  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
  }
  bool is_next(char c) {
    skip_spaces();
    return rest_.starts_with(c);
  }
  bool take(char c) {
    if (!is_next(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail();
  }
  std::string_view up_to(std::size_t end) {
    if (end > rest_.size()) fail();
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return text;
  }
  std::string_view quoted() {
    const char quote = is_next('"') ? '"' : '\'';
    expect(quote);
    const std::string_view text = up_to(rest_.find(quote));
    expect(quote);
    return text;
  }
  std::string_view word() {
    skip_spaces();
    const std::string_view text = up_to(rest_.find_first_of(",} "));
    if (text != "True" && text != "False") fail();
    return text;
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> dims;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      std::uint64_t extent = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc()) fail();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      dims.push_back(extent);
      if (!take(',') && !is_next(')')) fail();
    }
    return dims;
  }

  std::string_view rest_;
  const std::string& where_;
  std::optional<std::string_view> descr_;
  std::optional<bool> fortran_;
  std::optional<std::vector<std::uint64_t>> dims_;
};

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
  const Header header(text.substr(start, length), where);
  const std::string_view descr = header.descr();
  const char order = descr.empty() ? ' ' : descr[0];
  if (std::string_view("<>|=").find(order) == std::string_view::npos)
    throw UsageError(where + ": its .npy header is damaged");
  if (header.fortran() && header.dims().size() > 1)
    throw UsageError(where + " is in Fortran order: save numpy.ascontiguousarray(array)");
  return checked({element_of(descr.substr(1), where), order == '>', header.dims(),
                  bytes.subspan(start + length)},
                 where);
}

}  // namespace lockstep
