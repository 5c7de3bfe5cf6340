// What decorators share: every call goes to the transport below, and each overrides the few it is
// about. The transport below outlives the decorator, and both belong to one thread.
#pragma once

#include <map>
#include <utility>

#include "transport/transport.h"

namespace lockstep {

class Decorator;

// A window as a decorator shows it: everything goes to the window below.
class WindowView : public Window {
 public:
  explicit WindowView(Window& below) : below_(below) {}
  ~WindowView() override;

  std::span<const int> members() const override { return below_.members(); }
  bool reaches_all() const override { return below_.reaches_all(); }
  Bytes mine() const override { return below_.mine(); }
  Bytes of(int rank) const override { return below_.of(rank); }
  int meet(const Words& words) override { return below_.meet(words); }
  Words said(int rank) const override { return below_.said(rank); }
  void moved(int peer, Tag tag, std::size_t read, std::size_t written) override {
    below_.moved(peer, tag, read, written);
  }

 protected:
  Window& below_;

 private:
  friend class Decorator;
  std::unique_ptr<Window> owned_;   // set where the decorator opened it
  Decorator* decorator_ = nullptr;  // who forgets this view when it goes
};

class Decorator : public Transport {
 public:
  explicit Decorator(Transport& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int host_of(int rank) const override { return inner_.host_of(rank); }
  int job_rank(int rank) const override { return inner_.job_rank(rank); }
  Request post_send(int to, Tag tag, ConstBytes bytes) override {
    return inner_.post_send(to, tag, bytes);
  }
  Request post_recv(int from, Tag tag, Bytes into, Combine combine) override {
    return inner_.post_recv(from, tag, into, combine);
  }
  Request post_bell() override { return inner_.post_bell(); }
  bool give_up(Request request) noexcept override { return inner_.give_up(request); }
  Ending wait_any(std::span<const Request> requests, Deadline deadline) override {
    return inner_.wait_any(requests, deadline);
  }
  std::optional<Ending> test(Request request) override { return inner_.test(request); }
  std::optional<Arrival> probe(int from, Tag tag) override { return inner_.probe(from, tag); }
  void ring() override { inner_.ring(); }
  std::vector<int> dead_peers() override { return inner_.dead_peers(); }
  std::unique_ptr<Window> open_window(std::size_t bytes,
                                      std::span<const int> members = {}) override;
  // Also windows that were opened below, in this decorator's view.
  Window* window_at(const void* address) override;
  double now() const override { return inner_.now(); }
  double patience_seconds() const override { return inner_.patience_seconds(); }

 protected:
  // How this decorator shows a window; nullptr: as it is.
  virtual std::unique_ptr<WindowView> view_of(Window&) { return nullptr; }

  Transport& inner_;

 private:
  friend class WindowView;
  std::map<Window*, WindowView*> views_;               // by the window below
  std::vector<std::unique_ptr<WindowView>> borrowed_;  // views of windows that were opened below
};

inline WindowView::~WindowView() {
  if (decorator_) decorator_->views_.erase(&below_);
}

inline std::unique_ptr<Window> Decorator::open_window(std::size_t bytes,
                                                      std::span<const int> members) {
  auto window = inner_.open_window(bytes, members);
  auto view = view_of(*window);
  if (!view) return window;
  view->decorator_ = this;
  views_[window.get()] = view.get();
  view->owned_ = std::move(window);
  return view;
}

inline Window* Decorator::window_at(const void* address) {
  Window* window = inner_.window_at(address);
  if (!window) return nullptr;
  if (const auto known = views_.find(window); known != views_.end()) return known->second;
  auto view = view_of(*window);
  if (!view) return window;
  borrowed_.push_back(std::move(view));
  return views_[window] = borrowed_.back().get();
}

}  // namespace lockstep
