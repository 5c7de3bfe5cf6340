#include "transport/ucx/private_window.h"

#include <numeric>

#include "core/error.h"
#include "core/zero_pages.h"
#include "transport/transport.h"

namespace lockstep {

class PrivateWindows::PrivateWindow final : public Window {
 public:
  PrivateWindow(PrivateWindows& all, std::size_t bytes, std::vector<int> members, int rank)
      : all_(all), memory_(bytes), members_(std::move(members)), rank_(rank) {
    all_.open_.push_back(this);
  }
  ~PrivateWindow() override { std::erase(all_.open_, this); }

  std::span<const int> members() const override { return members_; }
  bool reaches_all() const override { return members_.size() == 1; }
  Bytes mine() const override { return memory_.bytes(); }
  Bytes of(int rank) const override { return rank == rank_ ? mine() : Bytes{}; }
  Words said(int) const override { return words_; }

  int meet(const Words& words) override {
    if (!reaches_all())
      throw InternalError("a meeting of ranks that share no memory: ask reaches_all() first");
    words_ = words;
    return -1;
  }

 private:
  PrivateWindows& all_;
  const ZeroPages memory_;
  const std::vector<int> members_;
  const int rank_;
  Words words_{};
};

std::unique_ptr<Window> PrivateWindows::open(std::size_t bytes, std::span<const int> members,
                                             int rank, int ranks) {
  std::vector<int> who(members.begin(), members.end());
  if (who.empty()) {
    who.resize(ranks);
    std::iota(who.begin(), who.end(), 0);
  }
  return std::make_unique<PrivateWindow>(*this, bytes, std::move(who), rank);
}

Window* PrivateWindows::at(const void* address) const {
  for (Window* w : open_) {
    const Bytes m = w->mine();
    if (address >= m.data && address < m.data + m.size) return w;
  }
  return nullptr;
}

}  // namespace lockstep
