// What the audit writes down in a step, of all ranks: see audit.h.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "collectives/all_gather.h"
#include "strategies/audit/projection.h"
#include "strategies/statement.h"
#include "transport/channels.h"

namespace lockstep {

// What one rank did with one part in one step. Doubles only: it is gathered as such.
struct Account {
  Projection before, gradient, stepped_with, stepped, after;
  double steps = 0;  // elements that the optimiser stepped
};
static_assert(sizeof(Account) == (5 * (kProjections + 1) + 1) * sizeof(double));

// What became of one part of one memory in one step.
struct Change {
  Projection before, after;
};
static_assert(sizeof(Change) == 2 * (kProjections + 1) * sizeof(double));

// What one worker read as the model, and what it had then: its weights, and what the strategy says
// of its memories.
struct ModelAccount {
  Projection weights, memories, model;
};
static_assert(sizeof(ModelAccount) == 3 * (kProjections + 1) * sizeof(double));

// Collective: row `rank` of `all`, which has one for each rank, from each to everybody.
template <class T>
void gather_rows(Transport& peers, std::vector<T>& all) {
  if (!all.empty())
    all_gather(peers, channels::kAudit,
               {all.data(), all.size() * sizeof(T) / sizeof(double), Type::fp64});
}

inline Slice common(Slice a, Slice b) {
  const std::size_t begin = std::max(a.begin, b.begin), end = std::min(a.end(), b.end());
  return {begin, end > begin ? end - begin : 0};
}

// The accounts of all ranks in one step: by rank, part and memory.
struct Books {
  std::vector<Slice> parts;
  std::size_t memories;
  std::vector<Account> accounts;
  std::vector<Change> changes;

  Books(std::vector<Slice> its_parts, std::size_t its_memories, int ranks)
      : parts(std::move(its_parts)),
        memories(its_memories),
        accounts(parts.size() * ranks),
        changes(parts.size() * memories * ranks) {}

  const Account& account(int rank, std::size_t part) const {
    return accounts[rank * parts.size() + part];
  }
  std::span<Account> accounts_of(int rank) {
    return {accounts.data() + rank * parts.size(), parts.size()};
  }
  const Change& change(int rank, std::size_t part, std::size_t memory) const {
    return changes[(rank * parts.size() + part) * memories + memory];
  }

  // What a memory has no number for counts as zero.
  void note_memories(int rank, const std::vector<Kept>& kept, Projection Change::*when,
                     std::uint64_t seed) {
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (std::size_t k = 0; k < memories; ++k)
        changes[(rank * parts.size() + p) * memories + k].*when =
            project(kept[k].values, common(parts[p], {kept[k].first, kept[k].values.count()}), seed,
                    kept[k].first);
  }

  // What these are of part p, as terms of a sum.
  void add_memories(std::span<const OfMemory> memories_of, std::size_t p,
                    std::vector<Term>& sum) const {
    for (const OfMemory& of : memories_of) {
      sum.push_back({of.before, change(of.rank, p, of.which).before});
      sum.push_back({of.after, change(of.rank, p, of.which).after});
    }
  }

  // Collective: everybody's to everybody.
  void exchange(Transport& peers) {
    gather_rows(peers, accounts);
    gather_rows(peers, changes);
  }
};

}  // namespace lockstep
