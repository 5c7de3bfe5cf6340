// Windows of ranks that live in one process, as threads or as actors: plain memory that all of them
// see. Hosts are pretended (Transport::host_of) and kept apart. How members meet differs, and so
// does who keeps whom from touching this at the same time: see loopback.cpp, simulated/transport.h.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/zero_pages.h"
#include "transport/window.h"

namespace lockstep {

// `Own` derives from this and has its constructor's arguments. `Lane` is the transport of a lane,
// which tells its number by lane(). `Meeting` is where members meet on one lane, made for so many.
template <class Own, class Lane, class Meeting>
class PlainWindow : public Window {
 public:
  // What the members of one window share, until the last of them has closed it.
  struct Memory {
    explicit Memory(std::size_t members) : owned(members), of(members) {}

    Meeting& meeting(int lane) { return meetings.try_emplace(lane, of.size()).first->second; }

    std::vector<std::unique_ptr<ZeroPages>> owned;  // by member; none where it is hollow
    std::vector<Bytes> of;                          // by member
    std::map<int, Meeting> meetings;                // by lane
  };

  // All windows of one world.
  class All {
   public:
    // This rank's end of a window; the others have theirs once the members have met there.
    std::unique_ptr<Own> open(Lane& who, std::size_t bytes, std::span<const int> members,
                              bool hollow = false) {
      std::vector<int> ranks = members_or_all(members, who.size());
      const Opening opening{who.lane(), ranks};
      const int number = opened_[{who.rank(), opening}]++;
      auto& slot = memories_[{opening, number}];
      auto memory = slot.lock();
      if (!memory) slot = memory = std::make_shared<Memory>(ranks.size());
      auto window = std::make_unique<Own>(*this, who, std::move(ranks), std::move(memory));
      window->own(bytes, hollow);
      return window;
    }
    // See Transport::window_at.
    Own* at(Lane& who, const void* address) {
      for (Own* window : open_[who.rank()])
        if (window->mine().holds(address)) return &window->on(who);
      return nullptr;
    }

   private:
    friend class PlainWindow;
    using Opening = std::pair<int, std::vector<int>>;  // lane and members, who may open many
    std::map<std::pair<int, Opening>, int> opened_;    // (rank, opening) -> how many so far
    std::map<std::pair<Opening, int>, std::weak_ptr<Memory>> memories_;
    std::map<int, std::vector<Own*>> open_;  // by rank
  };

  // `who` outlives the window.
  PlainWindow(All& all, Lane& who, std::vector<int> members, std::shared_ptr<Memory> memory)
      : who_(who),
        members_(std::move(members)),
        meeting_(memory->meeting(who.lane())),
        index_(index_of(who.rank())),
        all_(all),
        memory_(std::move(memory)),
        reaches_all_(std::ranges::all_of(members_, [&](int member) { return near(member); })) {}

  std::span<const int> members() const override { return members_; }
  bool reaches_all() const override { return reaches_all_; }
  Bytes mine() const override { return memory_->of[index_]; }
  Bytes of(int rank) const override { return near(rank) ? memory_->of[index_of(rank)] : Bytes{}; }

 protected:
  std::size_t index_of(int rank) const {
    return std::ranges::lower_bound(members_, rank) - members_.begin();
  }
  // The lane that opened the window closes it.
  void close() { std::erase(all_.open_[who_.rank()], static_cast<Own*>(this)); }
  bool opened() const { return opened_; }

  Lane& who_;
  const std::vector<int> members_;
  Meeting& meeting_;
  const std::size_t index_;  // of this rank among the members

 private:
  bool near(int rank) const { return who_.host_of(rank) == who_.host_of(who_.rank()); }

  void own(std::size_t bytes, bool hollow) {
    opened_ = true;
    Bytes& memory = memory_->of[index_] = {nullptr, bytes};
    if (!hollow) memory = (memory_->owned[index_] = std::make_unique<ZeroPages>(bytes))->bytes();
    all_.open_[who_.rank()].push_back(static_cast<Own*>(this));
  }

  // As another lane uses it. Lives as long as this.
  Own& on(Lane& who) {
    if (&who == &who_) return static_cast<Own&>(*this);
    auto& view = views_[who.lane()];
    if (!view) view = std::make_unique<Own>(all_, who, members_, memory_);
    return *view;
  }

  All& all_;
  const std::shared_ptr<Memory> memory_;
  const bool reaches_all_;
  bool opened_ = false;
  std::map<int, std::unique_ptr<Own>> views_;  // by lane
};

}  // namespace lockstep
