#include "strategies/mix_audit.h"

namespace lockstep {

MixAudit::MixAudit(const Rank& rank)
    : on_(true), rank_(rank.rank()), seed_(mixed(rank.seed ^ purpose_of("audit"))) {}

Projection MixAudit::of(Values values) const {
  if (!on_) return {};
  if (values.is_hollow())
    throw UsageError(
        "the audit needs numbers, and this replica has only sizes: run it with numerics=on, or "
        "without the audit");
  return project(values, {0, values.count()}, seed_);
}

void MixAudit::expect(std::string_view what, Values found, std::initializer_list<Term> mix) const {
  if (!on_) return;
  if (const auto wrong = mismatch(of(found), {mix.begin(), mix.size()}, found.count()))
    throw AuditError(fmt::format("audit: rank {}: the {} {}", rank_, what, *wrong));
}

}  // namespace lockstep
