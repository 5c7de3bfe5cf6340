// Counts what a rank's background jobs send and receive, as Metered does for its own lane. The
// inner background outlives the jobs.
#pragma once

#include <memory>

#include "measure/metered.h"
#include "transport/rank_view.h"

namespace lockstep {

class MeteredBackground final : public WrappedJobs {
 public:
  MeteredBackground(Background& inner, int ranks)
      : MeteredBackground(inner, std::make_shared<Book>(ranks)) {}

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
  MeteredBackground(Background& inner, std::shared_ptr<Book> book)
      : WrappedJobs(inner,
                    [book](Transport& lane, const Job& job) {
                      Metered metered(lane, book->ledger, &book->guard);
                      job(metered);
                    }),
        book_(std::move(book)) {}

  const std::shared_ptr<Book> book_;  // a job's too: one may outlive who posted it
};

}  // namespace lockstep
