// text: a file, a byte a character, in windows that lie side by side. Each character of a window is
// labelled with the one after it. The vocabulary is what the file has; its end is the test set, so
// no window of it has been seen in training.
#include <array>

#include "core/error.h"
#include "data/open.h"
#include "data/raw_array.h"

namespace lockstep {
namespace {

struct Text {
  explicit Text(const std::filesystem::path& path) : file(path) {
    numbers.fill(-1);
    for (const std::byte byte : file.bytes()) numbers[std::to_integer<std::size_t>(byte)] = 0;
    for (int& number : numbers)
      if (number == 0) number = classes++;
  }
  int at(std::size_t place) const {
    return numbers[std::to_integer<std::size_t>(file.bytes()[place])];
  }

  FileBytes file;
  std::array<int, 256> numbers{};  // by character; -1: it does not occur
  int classes = 0;
};

class Windows final : public Dataset {
 public:
  // Those of the text's characters [first, end). `text` is shared, as training and test set are
  // parts of one file.
  Windows(std::shared_ptr<const Text> text, std::size_t first, std::size_t end, std::size_t context)
      : Dataset({{static_cast<std::int64_t>(context)},
                 std::vector<int>((end - first - 1) / context),
                 text->classes,
                 {static_cast<std::int64_t>(context)},
                 true}),
        text_(std::move(text)),
        first_(first) {}

  void read(std::span<const std::uint32_t> indices, std::uint64_t, float* x) const override {
    copy(indices, 0, x);
  }
  void read_labels(std::span<const std::uint32_t> indices, std::uint64_t,
                   std::int64_t* y) const override {
    copy(indices, 1, y);
  }

 private:
  template <class Number>
  void copy(std::span<const std::uint32_t> indices, std::size_t later, Number* to) const {
    for (const std::size_t index : indices)
      for (std::size_t i = 0; i < values(); ++i)
        *to++ = static_cast<Number>(text_->at(first_ + index * values() + i + later));
  }

  const std::shared_ptr<const Text> text_;
  const std::size_t first_;
};

}  // namespace

Data open_text(const Options& options, const OpenRequest&) {
  const std::string path = options.text("file", "");
  if (path.empty()) throw UsageError("text needs a file: say text:FILE");
  const std::int64_t context = options.integer("context", 64);
  const double share = options.number("test", 0.1);
  if (context < 1 || !(share > 0 && share < 1))
    throw UsageError(fmt::format(
        "text:context={},test={}: give at least 1, and a share between 0 and 1", context, share));
  const auto text = std::make_shared<const Text>(path);
  const std::size_t all = text->file.bytes().size(), window = static_cast<std::size_t>(context);
  const auto test = static_cast<std::size_t>(share * static_cast<double>(all));
  if (std::min(test, all - test) <= window)
    throw UsageError(
        fmt::format("'{}' has {} characters, {} of them to test with: too few for a context of {}",
                    path, all, test, context));
  Data data;
  data.name = "text:" + path;
  data.train = std::make_unique<Windows>(text, 0, all - test, window);
  data.test = std::make_unique<Windows>(text, all - test, all, window);
  return data;
}

}  // namespace lockstep
