// Memory for a collective that can't do without: as many values as asked for, of the type and
// operator of a pattern; hollow, and no memory at all, if the pattern is hollow.
#pragma once

#include <memory>

#include "core/values.h"

namespace lockstep {

class Scratch {
 public:
  Scratch(Values pattern, std::size_t count)
      : memory_(pattern.is_hollow() ? nullptr : new std::byte[count * size_of(pattern.type())]),
        values_(memory_.get(), count, pattern.type(), pattern.op()) {}

  Values values() const { return values_; }
  Values values(Slice slice) const { return values_.part(slice); }

 private:
  std::unique_ptr<std::byte[]> memory_;  // not zeroed: it is written before it is read
  Values values_;
};

}  // namespace lockstep
