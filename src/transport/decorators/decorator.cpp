#include "transport/decorators/decorator.h"

namespace lockstep {

WindowView::~WindowView() {
  if (decorator_) decorator_->views_.erase(&below_);
}

std::unique_ptr<Window> Decorator::open_window(std::size_t bytes, std::span<const int> members) {
  auto window = inner_.open_window(bytes, members);
  auto view = view_of(*window);
  if (!view) return window;
  view->decorator_ = this;
  views_[window.get()] = view.get();
  view->owned_ = std::move(window);
  return view;
}

Window* Decorator::window_at(const void* address) {
  Window* window = inner_.window_at(address);
  if (!window) return nullptr;
  if (const auto known = views_.find(window); known != views_.end()) return known->second;
  auto view = view_of(*window);
  if (!view) return window;
  borrowed_.push_back(std::move(view));
  return views_[window] = borrowed_.back().get();
}

}  // namespace lockstep
