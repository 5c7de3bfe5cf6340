// Counts what a rank's background jobs send and receive, as Metered does for its own lane. The
// inner background outlives the jobs.
#pragma once

#include <memory>

#include "measure/metered.h"
#include "transport/rank.h"

namespace lockstep {

class MeteredBackground final : public Background {
 public:
  MeteredBackground(Background& inner, int ranks)
      : inner_(inner), book_(std::make_shared<Book>(ranks)) {}

  std::uint64_t post(Job job) override {
    return inner_.post([book = book_, job = std::move(job)](Transport& lane) {
      Metered metered(lane, book->ledger, &book->guard);
      job(metered);
    });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void ring() override { inner_.ring(); }

  Ledger ledger() const {
    const std::lock_guard hold(book_->guard);
    return book_->ledger;
  }

 private:
  struct Book {
    explicit Book(int ranks) : ledger(ranks) {}
    Ledger ledger;
    LedgerGuard guard;
  };

  Background& inner_;
  const std::shared_ptr<Book> book_;  // a job's too: one may outlive who posted it
};

}  // namespace lockstep
